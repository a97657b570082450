/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/keep_text.h"

#include "service/store/selector/selector.h"

#include <stdbool.h>
#include <stdio.h>
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

/* ---- Rules ---- */

/* Prometheus' form without its braces: service=~"batch.*". */
static sonde_err parse_bare(const char *text, struct selector **selector, struct sonde_diag *diag) {
    char braced[SELECTOR_MAX_BYTES + 4];
    snprintf(braced, sizeof braced, "{%s}", text);
    return selector_parse(braced, NULL, NULL, selector, diag);
}

static sonde_err read_selector(const char *option, const char *text, struct selector **selector,
                               struct sonde_diag *diag) {
    struct sonde_diag reason = {0};
    bool is_bare = text[0] != '{' && (strstr(text, "=~") || strstr(text, "!~"));
    sonde_err err = is_bare ? parse_bare(text, selector, &reason)
                            : selector_parse(text, NULL, NULL, selector, &reason);
    if (err == SONDE_INVALID_ARGUMENT && !is_bare && parse_bare(text, selector, NULL) == SONDE_OK)
        err = SONDE_OK;
    if (err)
        return sonde_fail(diag, err, "%s: the selector %.100s: %s", option, text,
                          sonde_diag_text(&reason, err));
    if (selector_names(*selector, "thread"))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: the selector %.100s names thread, but windows are kept or deleted "
                          "as a whole",
                          option, text);
    return SONDE_OK;
}

/* "SELECTOR=TIME"; equal is the last '='. */
static sonde_err add_rule(const char *option, const char *value, const char *equal,
                          struct keep_rules *rules, struct sonde_diag *diag) {
    char text[SELECTOR_MAX_BYTES + 1];
    size_t len = (size_t)(equal - value);
    struct store_keep *item = &rules->items[rules->count];
    if (rules->count == KEEP_MAX_RULES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: at most %d selectors", option,
                          KEEP_MAX_RULES);
    if (len > SELECTOR_MAX_BYTES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: a selector has at most %d bytes",
                          option, SELECTOR_MAX_BYTES);
    snprintf(text, sizeof text, "%.*s", (int)len, value);
    if (!text[strspn(text, " \t")])
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: \"%.40s\" has no selector; write SELECTOR=TIME, such as "
                          "service=\"batch\"=2d, or just a time for everything else",
                          option, value);
    sonde_err err = keep_text_read(option, equal + 1, &item->keep_s, diag);
    if (!err)
        err = read_selector(option, text, &rules->selectors[rules->count], diag);
    item->selector = rules->selectors[rules->count];
    rules->count += item->selector != NULL;
    return err;
}

sonde_err keep_rules_read(const char *option, const struct sonde_option_list *values,
                          uint32_t default_s, struct keep_rules *rules, struct sonde_diag *diag) {
    bool has_time = false;
    sonde_err err = SONDE_OK;
    *rules = (struct keep_rules){.keep_s = default_s};
    for (size_t i = 0; i < values->count && !err; i++) {
        const char *equal = strrchr(values->items[i], '=');
        if (equal)
            err = add_rule(option, values->items[i], equal, rules, diag);
        else if (has_time)
            err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                             "%s: \"%.40s\" is a second time without a selector", option,
                             values->items[i]);
        else
            err = keep_text_read(option, values->items[i], &rules->keep_s, diag);
        has_time = has_time || !equal;
    }
    return err;
}

void keep_rules_limit(const struct keep_rules *rules, struct store_limits *limits) {
    limits->keep_s = rules->keep_s;
    limits->keeps = rules->items;
    limits->keep_count = rules->count;
}

void keep_rules_finish(struct keep_rules *rules) {
    for (size_t i = 0; i < rules->count; i++)
        selector_destroy(rules->selectors[i]);
    rules->count = 0;
}
