/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/host_list.h"

#include "api/base/array.h"
#include "api/text/port.h"
#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

struct host_list *host_list_create(const char *origin) {
    struct host_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    hash_index_init(&list->by_address);
    hash_index_init(&list->by_name);
    list->origin = sonde_arena_dup(&list->arena, origin, strlen(origin));
    if (!list->origin) {
        host_list_destroy(list);
        return NULL;
    }
    return list;
}

void host_list_destroy(struct host_list *list) {
    if (!list)
        return;
    hash_index_finish(&list->by_address);
    hash_index_finish(&list->by_name);
    sonde_arena_finish(&list->arena);
    free(list->hosts);
    free(list);
}

static sonde_err no_memory(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "not enough memory for the list of hosts");
}

static sonde_err refuse(struct sonde_diag *diag, const char *found, const char *instead) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "\"%.80s\": %s", found, instead);
}

static bool is_host(const char *text, size_t len) {
    char host[256];
    if (len == 0 || len > 253)
        return false;
    memcpy(host, text, len);
    host[len] = 0;
    if (text[0] == '[')
        return len > 3 && text[len - 1] == ']' &&
               strspn(host + 1, "0123456789abcdefABCDEF:.") == len - 2;
    return strspn(host, LETTERS "._-") == len && text[0] != '-' && text[0] != '.';
}

static sonde_err check_address(const char *address, struct sonde_diag *diag) {
    static const char form[] = "write HOST:PORT, with [ ] around an IPv6 address, or unix:PATH";
    unsigned port;
    if (strncmp(address, "unix:", 5) == 0) {
        size_t len = strlen(address + 5);
        bool is_good = address[5] == '/' && len < sizeof((struct sockaddr_un *)0)->sun_path &&
                       sonde_utf8_is_clean(address, len + 5);
        return is_good ? SONDE_OK
                       : refuse(diag, address,
                                "the path of unix: begins with / and has at most "
                                "107 bytes");
    }
    const char *colon = strrchr(address, ':');
    if (!colon && is_host(address, strlen(address)))
        return refuse(diag, address, "the port is missing; write HOST:PORT");
    if (!colon || !is_host(address, (size_t)(colon - address)))
        return refuse(diag, sonde_utf8_is_clean(address, strlen(address)) ? address : "...", form);
    if (!sonde_port_read(colon + 1, &port) || port == 0)
        return refuse(diag, address, "the port must be a number from 1 to 65535");
    return SONDE_OK;
}

/* Names are shown on pages and in logs, and are parts of requests. */
static sonde_err check_name(const char *name, const char *what, struct sonde_diag *diag) {
    size_t len = strnlen(name, HOST_LIST_MAX_NAME + 1);
    if (len == 0 || len > HOST_LIST_MAX_NAME)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "\"%.80s\": %s must have 1 to %d bytes",
                          name, what, HOST_LIST_MAX_NAME);
    if (!sonde_utf8_is_clean(name, len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s must be UTF-8 without control characters", what);
    return SONDE_OK;
}

static sonde_err check_tls_name(const char *name, struct sonde_diag *diag) {
    sonde_err err = check_name(name, "tls-name", diag);
    if (!err && strspn(name, LETTERS "._-:*") != strlen(name))
        err = refuse(diag, name, "tls-name must be a host name or an address without a port");
    return err;
}

static sonde_err check_label(const struct discovered_label *label, struct sonde_diag *diag) {
    size_t name = strnlen(label->name, HOST_LIST_MAX_LABEL + 1);
    size_t value = strnlen(label->value, HOST_LIST_MAX_LABEL + 1);
    if (name == 0 || name > HOST_LIST_MAX_LABEL || value > HOST_LIST_MAX_LABEL)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "\"%.40s\": a label's name must have 1 to 1,024 bytes, its value at most "
                          "1,024",
                          label->name);
    if (!sonde_utf8_is_clean(label->name, name) || !sonde_utf8_is_clean(label->value, value))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "labels must be UTF-8 without control characters");
    return SONDE_OK;
}

static int by_label(const void *a, const void *b) {
    const struct discovered_label *one = a, *two = b;
    return strcmp(one->name, two->name);
}

sonde_err host_list_labels(struct host_list *list, const struct discovered_label *labels,
                           size_t count, const struct discovered_label **copy,
                           struct sonde_diag *diag) {
    *copy = NULL;
    if (count > HOST_LIST_MAX_LABELS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a host has at most %d labels",
                          HOST_LIST_MAX_LABELS);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++)
        err = check_label(&labels[i], diag);
    if (err || count == 0)
        return err;
    struct discovered_label *made = sonde_arena_alloc(&list->arena, count * sizeof *made);
    for (size_t i = 0; made && i < count; i++) {
        made[i].name = sonde_arena_dup(&list->arena, labels[i].name, strlen(labels[i].name));
        made[i].value = sonde_arena_dup(&list->arena, labels[i].value, strlen(labels[i].value));
        if (!made[i].name || !made[i].value)
            made = NULL;
    }
    if (!made)
        return no_memory(diag);
    qsort(made, count, sizeof *made, by_label);
    for (size_t i = 1; i < count; i++)
        if (strcmp(made[i].name, made[i - 1].name) == 0)
            return refuse(diag, made[i].name, "this label is given twice");
    *copy = made;
    return SONDE_OK;
}

static bool contains(const struct host_list *list, const struct hash_index *index,
                     const char *text) {
    struct hash_probe probe = hash_probe(hash_index_data(index, text, strlen(text)));
    uint32_t number;
    while ((number = hash_index_next(index, &probe)) != HASH_INDEX_NONE)
        if (strcmp(text, index == &list->by_name ? list->hosts[number].name
                                                 : list->hosts[number].address) == 0)
            return true;
    return false;
}

static sonde_err check_host(const struct discovered_host *host, struct sonde_diag *diag) {
    sonde_err err = check_address(host->address, diag);
    if (!err && host->name)
        err = check_name(host->name, "name", diag);
    if (!err && host->tls_name)
        err = check_tls_name(host->tls_name, diag);
    return err;
}

static const char *dup(struct host_list *list, const char *text) {
    return sonde_arena_dup(&list->arena, text, strlen(text));
}

static sonde_err append(struct host_list *list, const struct discovered_host *host,
                        struct sonde_diag *diag) {
    struct discovered_host made = *host;
    made.origin = list->origin;
    made.address = dup(list, host->address);
    made.name = host->name ? dup(list, host->name) : made.address;
    made.tls_name = host->tls_name ? dup(list, host->tls_name) : NULL;
    if (!made.address || !made.name || (host->tls_name && !made.tls_name) ||
        !array_room(&list->hosts, &list->capacity, list->count, 1))
        return no_memory(diag);
    uint32_t number = (uint32_t)list->count;
    list->hosts[list->count++] = made;
    if (!hash_index_add(&list->by_address,
                        hash_index_data(&list->by_address, made.address, strlen(made.address)),
                        number) ||
        !hash_index_add(&list->by_name,
                        hash_index_data(&list->by_name, made.name, strlen(made.name)), number))
        return no_memory(diag);
    return SONDE_OK;
}

sonde_err host_list_add(struct host_list *list, const struct discovered_host *host,
                        struct sonde_diag *diag) {
    sonde_err err = check_host(host, diag);
    if (err || contains(list, &list->by_address, host->address))
        return err;
    if (contains(list, &list->by_name, host->name ? host->name : host->address))
        return refuse(diag, host->name ? host->name : host->address,
                      "another host of this list has this name");
    for (size_t i = 0; i < host->label_count; i++)
        list->label_bytes += strlen(host->labels[i].name) + strlen(host->labels[i].value) + 2;
    if (list->label_bytes > HOST_LIST_MAX_LABEL_BYTES)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the labels of all hosts have more than 64 MiB; use fewer labels");
    if (list->count == DISCOVERY_MAX_HOSTS)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "more than %d hosts; start another controller for the others",
                          DISCOVERY_MAX_HOSTS);
    return append(list, host, diag);
}
