/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's URL. Errors quote nothing of it but the host, because it may have a password. */
#include "service/store/clickhouse/http/server.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sonde_err malformed(struct sonde_diag *diag, const char *what) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "ClickHouse URL: %s; write http[s]://[USER[:PASSWORD]@]HOST[:PORT]"
                      "[/DATABASE][?cluster=NAME]",
                      what);
}

/* A part of the URL, decoded; "" if there is none. The caller frees it with libcurl's function. */
static char *part(CURLU *url, CURLUPart which) {
    const struct http_library *curl = http_library();
    char *text = NULL;
    if (curl->url_get(url, which, &text, CURLU_URLDECODE) != CURLUE_OK)
        return NULL;
    return text;
}

static sonde_err set_number(const char *name, const char *value, uint64_t *number,
                            struct sonde_diag *diag) {
    char *end;
    unsigned long long parsed = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || parsed == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "ClickHouse URL: %s must be a positive number", name);
    *number = parsed;
    return SONDE_OK;
}

static sonde_err set(struct http_settings *settings, char *pair, struct sonde_diag *diag) {
    char *value = strchr(pair, '=');
    if (!value)
        return malformed(diag, "a setting has no value");
    *value++ = 0;
    if (strcmp(pair, "cluster") == 0) {
        if (!*value || strlen(value) >= sizeof settings->cluster)
            return malformed(diag, "cluster needs a name of at most 255 bytes");
        strcpy(settings->cluster, value);
        return SONDE_OK;
    }
    const struct {
        const char *name;
        uint64_t *number;
    } numbers[] = {{"max_execution_time", &settings->max_execution_time},
                   {"max_memory_usage", &settings->max_memory_usage},
                   {"insert_quorum", &settings->insert_quorum}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(pair, numbers[i].name) == 0)
            return set_number(pair, value, numbers[i].number, diag);
    return malformed(diag, "settings are cluster, max_execution_time, max_memory_usage and "
                           "insert_quorum");
}

static sonde_err read_settings(CURLU *url, struct http_settings *settings,
                               struct sonde_diag *diag) {
    const struct http_library *curl = http_library();
    char *path = part(url, CURLUPART_PATH), *query = part(url, CURLUPART_QUERY);
    const char *database = path ? path + strspn(path, "/") : "";
    sonde_err err = SONDE_OK;
    *settings = (struct http_settings){"default", "", 100, (uint64_t)4 << 30, 0};
    if (strlen(database) >= sizeof settings->database)
        err = malformed(diag, "the database's name is too long");
    else if (*database)
        strcpy(settings->database, database);
    char *rest = NULL;
    for (char *pair = query ? strtok_r(query, "&", &rest) : NULL; pair && !err;
         pair = strtok_r(NULL, "&", &rest))
        err = set(settings, pair, diag);
    curl->release(path);
    curl->release(query);
    return err;
}

static sonde_err fill(struct http_server *server, CURLU *url, struct sonde_diag *diag) {
    const struct http_library *curl = http_library();
    char *scheme = part(url, CURLUPART_SCHEME), *host = part(url, CURLUPART_HOST);
    char *port = part(url, CURLUPART_PORT);
    sonde_err err = SONDE_OK;
    bool is_https = scheme && strcmp(scheme, "https") == 0;
    if (!host || !scheme || (!is_https && strcmp(scheme, "http") != 0))
        err = malformed(diag, "it must start with http:// or https://");
    if (!err) {
        snprintf(server->name, sizeof server->name, "%s:%s", host,
                 port ? port : (is_https ? "8443" : "8123"));
        snprintf(server->url, sizeof server->url, "%s://%s/", scheme, server->name);
        server->user = part(url, CURLUPART_USER);
        server->password = part(url, CURLUPART_PASSWORD);
    }
    curl->release(scheme);
    curl->release(host);
    curl->release(port);
    return err;
}

sonde_err http_server_create(const char *text, struct http_settings *settings,
                             struct http_shared *shared, struct http_server **result,
                             struct sonde_diag *diag) {
    const struct http_library *curl = http_library();
    if (!curl)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "history on ClickHouse needs libcurl.so.4: apt-get install libcurl4");
    struct http_server *server = calloc(1, sizeof *server);
    CURLU *url = curl->url();
    sonde_err err = server && url ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err && curl->url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
        err = malformed(diag, "it is malformed");
    if (!err)
        err = fill(server, url, diag);
    if (!err && settings)
        err = read_settings(url, settings, diag);
    curl->url_cleanup(url);
    if (!err) {
        lock_init(&server->lock, LOCK_STORE_LINKS);
        server->shared = shared;
        *result = server;
        return SONDE_OK;
    }
    if (server) {
        curl->release(server->user);
        curl->release(server->password);
    }
    free(server);
    return err;
}
