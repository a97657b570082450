/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/cpu_params.h"

#include "api/profile/event.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define MAX_PERIOD (1ull << 40) /* events for one sample */

sonde_err cpu_params_read_times(const struct query *query, uint64_t *seconds, uint64_t *frequency,
                                struct sonde_diag *diag) {
    sonde_err err = query_whole(query, "seconds", 1, 3600, seconds, diag);
    return err ? err : query_whole(query, "frequency", 1, 10000, frequency, diag);
}

_Static_assert((int)SONDE__V1__CPU_MODE__CPU == SONDE_ON_CPU &&
                   (int)SONDE__V1__CPU_MODE__WALL == SONDE_WALL &&
                   (int)SONDE__V1__CPU_MODE__OFF_CPU == SONDE_OFF_CPU,
               "the modes have the numbers of their events");

static sonde_err refuse(const char *key, struct sonde_slice text, const char *const *names,
                        int count, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_buf list = {0};
    for (int i = 0; i < count; i++)
        sonde_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    sonde_err err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: \"%s\" is not one of %s", key,
                               query_quote(text, quoted), list.failed ? "" : list.data);
    sonde_buf_finish(&list);
    return err;
}

/* Sets *value to the index of the parameter's text in names. */
static sonde_err read_choice(const struct query *query, const char *key, const char *const *names,
                             int count, int *value, struct sonde_diag *diag) {
    struct sonde_slice text;
    int i = 0;
    if (!query_get(query, key, &text))
        return SONDE_OK;
    while (i < count && !sonde_slice_equals(text, names[i]))
        i++;
    if (i == count)
        return refuse(key, text, names, count, diag);
    *value = i;
    return SONDE_OK;
}

sonde_err cpu_params_read_mode(const struct query *query, struct cpu_mode *mode,
                               struct sonde_diag *diag) {
    static const char *const sources[] = {
        [SONDE__V1__SOURCE__AUTOMATIC] = "auto",
        [SONDE__V1__SOURCE__HOST] = "host",
        [SONDE__V1__SOURCE__GUEST] = "guest",
    };
    const char *modes[SONDE_MODES];
    for (size_t i = 0; i < SONDE_MODES; i++)
        modes[i] = sonde_events[i].mode;
    *mode = (struct cpu_mode){.event = ""};
    sonde_err err = read_choice(query, "mode", modes, SONDE_MODES, &mode->mode, diag);
    if (!err)
        err = read_choice(query, "source", sources, 3, &mode->source, diag);
    return err ? err : query_share(query, "max_overhead", 0.0001, 1, &mode->max_overhead, diag);
}

sonde_err cpu_params_read_event(const struct query *query, struct cpu_mode *mode,
                                struct sonde_diag *diag) {
    enum { COUNT = SONDE_EVENTS - SONDE_COUNTED };
    const char *names[COUNT];
    int event = COUNT;
    for (size_t i = 0; i < COUNT; i++)
        names[i] = sonde_events[SONDE_COUNTED + i].name;
    sonde_err err = read_choice(query, "event", names, COUNT, &event, diag);
    if (!err && event < COUNT)
        mode->event = names[event];
    if (!err)
        err = query_count(query, "period", 1, MAX_PERIOD, &mode->period, diag);
    return err ? err : query_flag(query, "locks", &mode->locks, diag);
}
