/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/unreached.h"
#include "clients/collect/discovery/source.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static sonde_err add_address(struct host_list *list, const struct addrinfo *info, const char *port,
                             const char *name, struct sonde_diag *diag) {
    char ip[NI_MAXHOST], address[NI_MAXHOST + 16];
    const struct discovered_host host = {.address = address, .tls_name = name};
    if ((info->ai_family != AF_INET && info->ai_family != AF_INET6) ||
        getnameinfo(info->ai_addr, info->ai_addrlen, ip, sizeof ip, NULL, 0, NI_NUMERICHOST) != 0)
        return SONDE_OK;
    ip[strcspn(ip, "%")] = 0; /* the interface of a link-local address */
    snprintf(address, sizeof address, info->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", ip, port);
    return host_list_add(list, &host, diag);
}

static sonde_err add_all(struct host_list *list, const struct addrinfo *found, const char *port,
                         const char *name, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (; found && !err; found = found->ai_next)
        err = add_address(list, found, port, name, diag);
    return err;
}

static sonde_err refuse(int failure, const char *name, struct sonde_diag *diag) {
    char text[sizeof diag->text];
    bool is_silent = failure == EAI_AGAIN;
    return sonde_fail(diag, SONDE_UNAVAILABLE, "%s",
                      unreached_text(is_silent ? UNREACHED_NO_RESOLVER : UNREACHED_NO_ADDRESS, name,
                                     text, sizeof text));
}

sonde_err source_read_dns(const struct source_spec *spec, struct host_list **list,
                          struct sonde_diag *diag) {
    char name[256];
    const char *colon = strrchr(spec->text, ':');
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    snprintf(name, sizeof name, "%.*s", (int)(colon - spec->text), spec->text);
    *list = NULL;
    int failure = getaddrinfo(name, NULL, &hints, &found);
    if (failure)
        return refuse(failure, name, diag);
    *list = host_list_create(spec->name);
    sonde_err err = *list ? add_all(*list, found, colon + 1, name, diag)
                          : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory");
    freeaddrinfo(found);
    if (err) {
        host_list_destroy(*list);
        *list = NULL;
    }
    return err;
}
