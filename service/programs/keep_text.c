/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/keep_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* 0 = no such unit. */
static uint64_t seconds_of(const char *unit) {
    static const struct {
        const char *name;
        uint32_t seconds;
    } units[] = {{"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].seconds;
    return 0;
}

sonde_err keep_text_read(const char *option, const char *text, uint32_t *seconds,
                         struct sonde_diag *diag) {
    size_t digits = strspn(text, "0123456789");
    uint64_t number = strtoull(text, NULL, 10), unit = seconds_of(text + digits);
    bool is_number = digits > 0 && digits <= 9;
    *seconds = 0;
    if (is_number && number == 0 && (unit || !text[digits]))
        return SONDE_OK;
    if (!is_number || !unit || number * unit < KEEP_MIN_S || number * unit > KEEP_MAX_S)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: \"%.40s\" is not a time from 1h to 3660d, such as 12h, 7d or 4w; "
                          "0 keeps everything",
                          option, text);
    *seconds = (uint32_t)(number * unit);
    return SONDE_OK;
}
