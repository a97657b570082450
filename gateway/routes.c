/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/routes.h"

#include "gateway/handlers.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#include <string.h>

#define BOTH (METHOD_GET | METHOD_POST)

static const struct profile_setup debug_pprof = {10, SONDE__V1__FORMAT__SVG_FLAMEGRAPH,
                                                 PROFILE_NEGOTIATES | PROFILE_IS_FILE};
static const struct profile_setup gperftools = {30, SONDE__V1__FORMAT__LEGACY_CPU, PROFILE_IS_FILE};
static const struct profile_setup debug_prof = {5, SONDE__V1__FORMAT__PPROF, PROFILE_STRICT};
static const struct profile_setup julia = {10, SONDE__V1__FORMAT__PPROF, PROFILE_GZIP_BODY};

#define CPU_PARAMETERS "seconds frequency output"

/* clang-format off */
static const struct route table[] = {
    {"/", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_index, NULL, "", NULL,
     "this page"},
    {"/style.css", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_style, NULL, "", NULL,
     "the look of this page"},
    {"/openapi.yaml", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_openapi, NULL, "", "",
     "all of this as an OpenAPI contract"},

    {"/debug/pprof", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PPROF, handle_index, NULL, "", NULL,
     "this page"},
    {"/debug/pprof/", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PPROF, handle_index, NULL, "", NULL,
     "this page"},
    {"/debug/pprof/profile", METHOD_GET, 0, FAMILY_PPROF, handle_profile, &debug_pprof,
     CPU_PARAMETERS, "?seconds=30", "CPU profile: a flame graph, for Go clients pprof"},
    {"/debug/pprof/symbol", BOTH, ROUTE_LARGE_BODY, FAMILY_PPROF, handle_symbol, NULL, "", "",
     "names for addresses: POST 0x..+0x.."},
    {"/debug/pprof/symbolz", BOTH, ROUTE_LARGE_BODY, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "names for addresses: POST 0x..+0x.."},
    {"/debug/pprof/cmdline", METHOD_GET, 0, FAMILY_PPROF, handle_cmdline, NULL, "", "",
     "the command line the target was started with"},

    {"/pprof/profile", METHOD_GET, 0, FAMILY_PPROF, handle_profile, &gperftools, CPU_PARAMETERS,
     "?seconds=30", "CPU profile in the form that jeprof and google-pprof read"},
    {"/pprof/symbol", BOTH, ROUTE_LARGE_BODY, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "names for addresses: POST 0x..+0x.."},
    {"/pprof/symbolz", BOTH, ROUTE_LARGE_BODY, FAMILY_PPROF, handle_symbol, NULL, "", NULL,
     "names for addresses: POST 0x..+0x.."},
    {"/pprof/cmdline", METHOD_GET, 0, FAMILY_PPROF, handle_cmdline, NULL, "", NULL,
     "the command line the target was started with"},
    {"/symbol", BOTH, ROUTE_LARGE_BODY, FAMILY_PLAIN, handle_symbol, NULL, "", NULL,
     "names for addresses: POST 0x..+0x.."},
    {"/symbolz", BOTH, ROUTE_LARGE_BODY, FAMILY_PLAIN, handle_symbol, NULL, "", NULL,
     "names for addresses: POST 0x..+0x.."},

    {"/debug/prof/cpu", METHOD_POST, 0, FAMILY_PROF, handle_profile, &debug_prof, CPU_PARAMETERS,
     "?seconds=5", "CPU profile by POST: pprof unless output= says otherwise"},

    {"/profile", BOTH, ROUTE_SLASH, FAMILY_JULIA, handle_julia_profile, &julia,
     "n delay duration pprof output", "?duration=10", "CPU profile: pprof in a gzip file"},
    {"/profile_start", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE, FAMILY_JULIA, handle_julia_start,
     NULL, "n delay", NULL, "start a CPU session"},
    {"/profile_stop", BOTH, ROUTE_SLASH | ROUTE_CHANGES_STATE, FAMILY_JULIA, handle_julia_stop,
     &julia, "pprof output", NULL, "stop the CPU session and fetch its profile"},

    {"/v1/targets", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_targets, NULL, "", "",
     "the processes attached now"},
    {"/v1/info", METHOD_GET, ROUTE_NO_TARGET, FAMILY_V1, handle_info, NULL, "", "",
     "version, limits and counters of the service"},
    {"/v1/profile/ProfileTracing", METHOD_POST, ROUTE_NO_TARGET, FAMILY_TRACING, handle_no_store,
     NULL, "", NULL, "continuous profiles of the past"},

    {"/healthz", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_healthz, NULL, "", "",
     "whether the gateway lives"},
    {"/readyz", METHOD_GET, ROUTE_NO_TARGET, FAMILY_PLAIN, handle_readyz, NULL, "", "",
     "whether the service answers"},
};
/* clang-format on */

#define COUNT (sizeof table / sizeof table[0])

const struct route *route_table(size_t *count) {
    *count = COUNT;
    return table;
}

const struct route *route_find(struct sonde_slice path) {
    for (size_t i = 0; i < COUNT; i++) {
        const struct route *route = &table[i];
        struct sonde_slice shorter = path;
        if ((route->flags & ROUTE_SLASH) && path.len > 1 && path.data[path.len - 1] == '/')
            shorter.len--;
        if (sonde_slice_equals(shorter, route->path))
            return route;
    }
    return NULL;
}

static bool begins(struct sonde_slice path, const char *prefix) {
    size_t len = strlen(prefix);
    return path.len >= len && memcmp(path.data, prefix, len) == 0;
}

enum family route_family(struct sonde_slice path) {
    const struct route *route = route_find(path);
    if (route)
        return route->family;
    if (begins(path, "/debug/pprof/") || begins(path, "/pprof/"))
        return FAMILY_PPROF;
    if (begins(path, "/debug/prof/"))
        return FAMILY_PROF;
    return begins(path, "/v1/profile/") ? FAMILY_TRACING : FAMILY_PLAIN;
}
