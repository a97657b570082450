/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/cpu_params.h"

#include "proto/sonde/v1/profiler.pb-c.h"

sonde_err cpu_params_read_times(const struct query *query, uint64_t *seconds, uint64_t *frequency,
                                struct sonde_diag *diag) {
    sonde_err err = query_whole(query, "seconds", 1, 3600, seconds, diag);
    return err ? err : query_whole(query, "frequency", 1, 10000, frequency, diag);
}

/* Sets *value to the index of the parameter's text in names, which ends with NULL. */
static sonde_err read_choice(const struct query *query, const char *key, const char *const *names,
                             const char *list, int *value, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_slice text;
    if (!query_get(query, key, &text))
        return SONDE_OK;
    for (int i = 0; names[i]; i++) {
        *value = i;
        if (sonde_slice_equals(text, names[i]))
            return SONDE_OK;
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: \"%s\" is not one of %s", key,
                      query_quote(text, quoted), list);
}

sonde_err cpu_params_read_mode(const struct query *query, struct cpu_mode *mode,
                               struct sonde_diag *diag) {
    static const char *const modes[] = {
        [SONDE__V1__CPU_MODE__CPU] = "cpu",
        [SONDE__V1__CPU_MODE__WALL] = "wall",
        [SONDE__V1__CPU_MODE__OFF_CPU] = "off-cpu",
        NULL,
    };
    static const char *const sources[] = {
        [SONDE__V1__SOURCE__AUTOMATIC] = "auto",
        [SONDE__V1__SOURCE__HOST] = "host",
        [SONDE__V1__SOURCE__GUEST] = "guest",
        NULL,
    };
    *mode = (struct cpu_mode){0};
    sonde_err err = read_choice(query, "mode", modes, "cpu, wall, off-cpu", &mode->mode, diag);
    if (!err)
        err = read_choice(query, "source", sources, "auto, host, guest", &mode->source, diag);
    return err ? err : query_share(query, "max_overhead", 0.0001, 1, &mode->max_overhead, diag);
}
