/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/open.h"

#include "service/store/clickhouse/clickhouse.h"
#include "service/store/sqlite/sqlite.h"

#include <string.h>

struct kind {
    const char *prefix;
    sonde_err (*open)(const char *place, const struct store_limits *limits, struct store **store,
                      struct sonde_diag *diag);
};

/* One row per engine. */
static const struct kind kinds[] = {
    {"sqlite:", sqlite_store_open},
    {"clickhouse:", clickhouse_open},
    {NULL, NULL},
};

sonde_err store_open(const char *name, const struct store_limits *limits, struct store **store,
                     struct sonde_diag *diag) {
    *store = NULL;
    for (const struct kind *kind = kinds; kind->prefix; kind++) {
        size_t len = strlen(kind->prefix);
        if (strncmp(name, kind->prefix, len) == 0)
            return kind->open(name + len, limits, store, diag);
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "there is no kind of store named \"%.*s\": use sqlite:DIR or clickhouse:URL",
                      (int)strcspn(name, ":") < 40 ? (int)strcspn(name, ":") : 40, name);
}
