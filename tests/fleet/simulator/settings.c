/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/host.h"

#include <stdlib.h>

static bool matches(const char *pattern, const char *text) {
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            for (;; text++) {
                if (matches(pattern + 1, text))
                    return true;
                if (!*text)
                    return false;
            }
        }
        if (*pattern != *text)
            return false;
    }
    return !*text;
}

bool settings_rule(const Sonde__V1__CollectSettings *settings, const char *service,
                   double *probability, uint32_t *frequency_hz) {
    for (size_t i = 0; i < settings->n_rules; i++) {
        const Sonde__V1__CollectRule *rule = settings->rules[i];
        if (!matches(rule->service, service))
            continue;
        *probability = rule->probability;
        *frequency_hz = rule->frequency_hz ? rule->frequency_hz : settings->frequency_hz;
        return true;
    }
    return false;
}

Sonde__V1__CollectSettings *settings_dup(const Sonde__V1__CollectSettings *wanted) {
    size_t size = sonde__v1__collect_settings__get_packed_size(wanted);
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        abort();
    sonde__v1__collect_settings__pack(wanted, bytes);
    Sonde__V1__CollectSettings *settings = sonde__v1__collect_settings__unpack(NULL, size, bytes);
    free(bytes);
    if (!settings)
        abort();
    if (!settings->frequency_hz)
        settings->frequency_hz = 19;
    if (!settings->window_s)
        settings->window_s = 10;
    if (!settings->draw_s)
        settings->draw_s = 300;
    return settings;
}
