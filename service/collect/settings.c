/* SPDX-License-Identifier: Apache-2.0 */
#include "service/collect/settings.h"

#include "api/text/wildcard.h"
#include "service/recording/recording.h"
#include "service/store/ids.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 255
#define MAX_HZ   999

struct bound {
    const char *name;
    uint32_t *value;
    uint32_t low, high, fallback; /* fallback: what 0 means; then low does not apply to 0 */
};

static sonde_err check_number(const struct bound *bound, struct sonde_diag *diag) {
    if (*bound->value == 0)
        *bound->value = bound->fallback;
    else if (*bound->value < bound->low || *bound->value > bound->high)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s is %u; it must be %u to %u, or 0",
                          bound->name, *bound->value, bound->low, bound->high);
    return SONDE_OK;
}

static sonde_err check_rule(Sonde__V1__CollectRule *rule, size_t number, uint32_t max_hz,
                            struct sonde_diag *diag) {
    size_t len = strlen(rule->service);
    if (len == 0 || len > MAX_NAME)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the service of rule %zu has %zu bytes; it must have 1 to %d", number,
                          len, MAX_NAME);
    if (!(rule->probability >= 0 && rule->probability <= 1))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the probability of rule %zu is %g; it must be 0 to 1", number,
                          rule->probability);
    if (rule->frequency_hz > MAX_HZ)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "frequency_hz of rule %zu is %u; it must be 1 to %d, or 0", number,
                          rule->frequency_hz, MAX_HZ);
    if (rule->frequency_hz > max_hz)
        rule->frequency_hz = max_hz;
    return SONDE_OK;
}

static sonde_err check(Sonde__V1__CollectSettings *settings, uint32_t max_hz,
                       struct sonde_diag *diag) {
    const struct bound bounds[] = {
        {"frequency_hz", &settings->frequency_hz, 1, MAX_HZ, RECORDING_HZ},
        {"window_s", &settings->window_s, 5, 300, RECORD_WINDOW_MS / 1000},
        {"off_cpu_ms", &settings->off_cpu_ms, 1, 1000, 0},
        {"draw_s", &settings->draw_s, 60, 3600, 300},
        {"keep_s", &settings->keep_s, 60, 86400, 3600},
    };
    sonde_err err = SONDE_OK;
    if (settings->n_rules > COLLECT_MAX_RULES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%zu rules are too many; at most %d",
                          settings->n_rules, COLLECT_MAX_RULES);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0] && !err; i++)
        err = check_number(&bounds[i], diag);
    if (settings->max_overhead == 0)
        settings->max_overhead = RECORDING_MAX_OVERHEAD;
    if (!err && !(settings->max_overhead >= 0.0001 && settings->max_overhead <= 0.2))
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "max_overhead is %g; it must be 0.0001 to 0.2, or 0",
                         settings->max_overhead);
    if (settings->frequency_hz > max_hz)
        settings->frequency_hz = max_hz;
    for (size_t i = 0; i < settings->n_rules && !err; i++)
        err = check_rule(settings->rules[i], i, max_hz, diag);
    return err;
}

static Sonde__V1__CollectSettings *copy(const Sonde__V1__CollectSettings *from) {
    size_t len = sonde__v1__collect_settings__get_packed_size(from);
    uint8_t *bytes = malloc(len + 1);
    Sonde__V1__CollectSettings *settings = NULL;
    if (bytes) {
        sonde__v1__collect_settings__pack(from, bytes);
        settings = sonde__v1__collect_settings__unpack(NULL, len, bytes);
    }
    free(bytes);
    return settings;
}

sonde_err collect_settings_read(const Sonde__V1__CollectSettings *from, uint32_t max_hz,
                                Sonde__V1__CollectSettings **effective, struct sonde_diag *diag) {
    const Sonde__V1__CollectSettings none = SONDE__V1__COLLECT_SETTINGS__INIT;
    Sonde__V1__CollectSettings *settings = copy(from ? from : &none);
    if (!settings)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the settings");
    sonde_err err = check(settings, max_hz, diag);
    if (err)
        sonde__v1__collect_settings__free_unpacked(settings, NULL);
    else
        *effective = settings;
    return err;
}

bool collect_settings_differ(const Sonde__V1__CollectSettings *left,
                             const Sonde__V1__CollectSettings *right) {
    return left->window_s != right->window_s || left->off_cpu_ms != right->off_cpu_ms ||
           left->heap != right->heap || left->host_totals != right->host_totals ||
           left->max_overhead != right->max_overhead || left->guests_only != right->guests_only;
}

uint32_t collect_settings_machine_hz(const Sonde__V1__CollectSettings *settings) {
    for (size_t i = 0; i < settings->n_rules && !settings->is_paused; i++)
        if (settings->rules[i]->probability > 0)
            return settings->frequency_hz;
    return 0;
}

/* ---- The draw ---- */

static uint64_t hash(const char *what, uint64_t seed, const char *uuid, uint64_t term) {
    char text[160];
    int len = snprintf(text, sizeof text, "%s %" PRIu64 " %.64s %" PRIu64, what, seed, uuid, term);
    return store_hash(text, (size_t)len);
}

static bool is_drawn(const Sonde__V1__CollectSettings *settings, const char *uuid,
                     double probability, int64_t now_unix_s) {
    uint64_t phase_s = hash("phase", settings->seed, uuid, 0) % settings->draw_s;
    uint64_t term = ((uint64_t)now_unix_s + phase_s) / settings->draw_s;
    return ldexp((double)hash("draw", settings->seed, uuid, term), -64) < probability;
}

static const Sonde__V1__CollectRule *find_rule(const Sonde__V1__CollectSettings *settings,
                                               const char *name) {
    for (size_t i = 0; i < settings->n_rules; i++)
        if (sonde_wildcard_matches(settings->rules[i]->service, name))
            return settings->rules[i];
    return NULL;
}

struct record_choice collect_settings_choose(const Sonde__V1__CollectSettings *settings,
                                             const char *name, const char *uuid, int64_t now_unix_s,
                                             bool *is_matched) {
    const Sonde__V1__CollectRule *rule = find_rule(settings, name);
    *is_matched = rule && rule->probability > 0;
    if (settings->is_paused || !*is_matched ||
        (rule->probability < 1 && !is_drawn(settings, uuid, rule->probability, now_unix_s)))
        return (struct record_choice){.weight = 1};
    return (struct record_choice){
        .frequency_hz = rule->frequency_hz ? rule->frequency_hz : settings->frequency_hz,
        .weight = 1 / rule->probability,
    };
}
