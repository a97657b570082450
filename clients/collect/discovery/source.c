/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/source.h"

#include "api/text/port.h"

#include <stdio.h>
#include <string.h>

static sonde_err refuse(struct sonde_diag *diag, const char *text, const char *instead) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the source \"%.100s\": %s", text, instead);
}

static sonde_err read_dns(const char *text, struct source_spec *spec, struct sonde_diag *diag) {
    const char *name = text + 4, *colon = strrchr(name, ':');
    size_t len = colon ? (size_t)(colon - name) : 0;
    unsigned port;
    if (len == 0 || len > 253 || !sonde_port_read(colon + 1, &port) || port == 0 ||
        strcspn(name, " []/") < len)
        return refuse(diag, text, "write dns:NAME:PORT, for example dns:sonded.example:20181");
    spec->kind = SOURCE_DNS;
    snprintf(spec->text, sizeof spec->text, "%s", name);
    snprintf(spec->name, sizeof spec->name, "dns %s", name);
    return SONDE_OK;
}

static sonde_err read_url(const char *text, struct source_spec *spec, struct sonde_diag *diag) {
    const char *host = strstr(text, "://") + 3, *at = NULL;
    size_t len = strcspn(host, "/?#");
    for (const char *c = host; c < host + len; c++)
        if (*c == '@')
            at = c;
    const char *shown = at ? at + 1 : host;
    if (len == 0 || shown == host + len || strpbrk(text, " \t\r\n"))
        return refuse(diag, at ? "..." : text, "write http://HOST[:PORT]/PATH or https://...");
    spec->kind = SOURCE_HTTP;
    snprintf(spec->text, sizeof spec->text, "%s", text);
    snprintf(spec->name, sizeof spec->name, "http %.*s%.280s", (int)(host - text), text, shown);
    return SONDE_OK;
}

sonde_err source_read_spec(const char *text, struct source_spec *spec, struct sonde_diag *diag) {
    *spec = (struct source_spec){.kind = SOURCE_FILE};
    size_t len = strnlen(text, SOURCE_MAX_SPEC + 1);
    if (len == 0 || len > SOURCE_MAX_SPEC)
        return refuse(diag, text, "write FILE, dns:NAME:PORT or http://..., at most 2,047 bytes");
    if (strncmp(text, "dns:", 4) == 0)
        return read_dns(text, spec, diag);
    if (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0)
        return read_url(text, spec, diag);
    if (strstr(text, "://"))
        return refuse(diag, text, "write FILE, dns:NAME:PORT, http://... or https://...");
    snprintf(spec->text, sizeof spec->text, "%s", text);
    snprintf(spec->name, sizeof spec->name, "file %.300s", text);
    return SONDE_OK;
}
