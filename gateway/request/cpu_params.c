/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/cpu_params.h"

#include "proto/sonde/v1/profiler.pb-c.h"

sonde_err cpu_params_read_times(const struct query *query, uint64_t *seconds, uint64_t *frequency,
                                struct sonde_diag *diag) {
    sonde_err err = query_whole(query, "seconds", 1, 3600, seconds, diag);
    return err ? err : query_whole(query, "frequency", 1, 10000, frequency, diag);
}

static sonde_err read_mode(const struct query *query, int *mode, struct sonde_diag *diag) {
    static const char *const names[] = {
        [SONDE__V1__CPU_MODE__CPU] = "cpu",
        [SONDE__V1__CPU_MODE__WALL] = "wall",
        [SONDE__V1__CPU_MODE__OFF_CPU] = "off-cpu",
    };
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_slice value;
    if (!query_get(query, "mode", &value))
        return SONDE_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        *mode = i;
        if (sonde_slice_equals(value, names[i]))
            return SONDE_OK;
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "mode: \"%s\" is not one of cpu, wall, off-cpu",
                      query_quote(value, quoted));
}

sonde_err cpu_params_read_mode(const struct query *query, struct cpu_mode *mode,
                               struct sonde_diag *diag) {
    *mode = (struct cpu_mode){0};
    sonde_err err = read_mode(query, &mode->mode, diag);
    return err ? err : query_share(query, "max_overhead", 0.0001, 1, &mode->max_overhead, diag);
}
