/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/clickhouse.h"
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/texts/text_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fleet_close(struct store *store) {
    struct fleet *fleet = (struct fleet *)store;
    for (size_t i = 0; i < fleet->server_count; i++)
        http_server_destroy(fleet->servers[i].http);
    text_cache_destroy(fleet->cache);
    lock_finish(&fleet->put_lock);
    lock_finish(&fleet->lock);
    free(fleet);
}

static const struct store_ops ops = {
    .put = fleet_put,
    .merge = fleet_merge,
    .stacks = fleet_stacks,
    .frames = fleet_frames,
    .unnamed = fleet_unnamed,
    .series = fleet_series,
    .totals = fleet_totals,
    .hosts = fleet_hosts,
    .services = fleet_services,
    .labels = fleet_labels,
    .lease = fleet_lease,
    .put_change = fleet_put_change,
    .changes = fleet_changes,
    .info = fleet_info,
    .maintain = fleet_maintain,
    .close = fleet_close,
};

static sonde_err add_server(struct fleet *fleet, const char *url, struct sonde_diag *diag) {
    size_t i = fleet->server_count;
    if (i == HTTP_MAX_SERVERS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "ClickHouse: at most %d URLs",
                          HTTP_MAX_SERVERS);
    sonde_err err = http_server_create(url, i ? NULL : &fleet->settings, &fleet->shared,
                                       &fleet->servers[i].http, diag);
    fleet->server_count += !err;
    return err;
}

static sonde_err add_servers(struct fleet *fleet, const char *url_list, struct sonde_diag *diag) {
    char *list = strdup(url_list), *rest = NULL;
    sonde_err err = list ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (char *url = list ? strtok_r(list, ",", &rest) : NULL; url && !err;
         url = strtok_r(NULL, ",", &rest))
        err = add_server(fleet, url, diag);
    free(list);
    if (!err && fleet->server_count == 0)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "ClickHouse: a URL is needed");
    if (!err && fleet->server_count > 1 && !fleet_is_cluster(fleet))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "ClickHouse: several URLs need ?cluster=NAME in the first one");
    return err;
}

static void describe(struct fleet *fleet) {
    size_t len = 0;
    for (size_t i = 0; i < fleet->server_count && len < sizeof fleet->place - 1; i++)
        len += (size_t)snprintf(fleet->place + len, sizeof fleet->place - len, "%s%s", i ? "," : "",
                                http_server_name(fleet->servers[i].http));
    if (len < sizeof fleet->place - 1)
        snprintf(fleet->place + len, sizeof fleet->place - len, "/%s", fleet->settings.database);
}

sonde_err clickhouse_open(const char *url_list, const struct store_limits *limits,
                          struct store **store, struct sonde_diag *diag) {
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return SONDE_OUT_OF_MEMORY;
    fleet->store.ops = &ops;
    fleet->limits = limits ? *limits : (struct store_limits){0};
    fleet->shared.end = fleet->limits.end;
    lock_init(&fleet->put_lock, LOCK_STORE_PUT);
    lock_init(&fleet->lock, LOCK_STORE);
    fleet->cache = text_cache_create();
    sonde_err err = fleet->cache ? add_servers(fleet, url_list, diag) : SONDE_OUT_OF_MEMORY;
    describe(fleet);
    if (!err)
        err = fleet_prepare(fleet, diag);
    if (err) {
        fleet_close(&fleet->store);
        return err;
    }
    *store = &fleet->store;
    return SONDE_OK;
}
