/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/open.h"

#include "service/store/clickhouse/clickhouse.h"
#include "service/store/sqlite/sqlite.h"

#include <string.h>

typedef sonde_err open_function(const char *place, const struct store_limits *limits,
                                struct store **store, struct sonde_diag *diag);

struct kind {
    const char *prefix;
    open_function *open, *open_read_only; /* NULL = it cannot */
};

/* One row per engine. */
static const struct kind kinds[] = {
    {"sqlite:", sqlite_store_open, sqlite_store_open_read_only},
    {"clickhouse:", clickhouse_open, NULL},
};

static const struct kind *find(const char *name, struct sonde_diag *diag) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return &kinds[i];
    (void)sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                     "there is no kind of store named \"%.*s\": use sqlite:DIR or clickhouse:URL",
                     (int)strcspn(name, ":") < 40 ? (int)strcspn(name, ":") : 40, name);
    return NULL;
}

sonde_err store_open(const char *name, const struct store_limits *limits, struct store **store,
                     struct sonde_diag *diag) {
    const struct kind *kind = find(name, diag);
    *store = NULL;
    return kind ? kind->open(name + strlen(kind->prefix), limits, store, diag)
                : SONDE_INVALID_ARGUMENT;
}

sonde_err store_open_read_only(const char *name, const struct store_limits *limits,
                               struct store **store, struct sonde_diag *diag) {
    const struct kind *kind = find(name, diag);
    *store = NULL;
    if (kind && !kind->open_read_only)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "this store cannot be opened for reading only");
    return kind ? kind->open_read_only(name + strlen(kind->prefix), limits, store, diag)
                : SONDE_INVALID_ARGUMENT;
}
