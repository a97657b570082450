/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/wildcard.h"
#include "clients/collect/policy/budget_lines.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal has the file's name, and what is accepted keeps its bounds. */
static void check(const char *text) {
    struct sonde_diag diag = {0};
    struct budget_lines lines;
    if (budget_lines_read(text, "f", &lines, &diag)) {
        if (strncmp(diag.text, "f:", 2) != 0)
            __builtin_trap();
        return;
    }
    if (lines.count < 1 || lines.count > BUDGET_MAX_LINES + 1)
        __builtin_trap();
    for (size_t i = 0; i < lines.count; i++) {
        const struct budget_line *line = &lines.lines[i];
        if (!*line->pattern || !(line->start >= BUDGET_MIN_P && line->start <= 1) ||
            line->frequency_hz > BUDGET_MAX_HZ || !sonde_wildcard_matches("*", line->pattern) ||
            !sonde_wildcard_matches(line->pattern, line->pattern) ||
            budget_lines_find(&lines, line->pattern) > i)
            __builtin_trap();
    }
}

/* Whatever was counted, there are at most a thousand rules, with probabilities. */
static void run(const char *text, const char *service) {
    struct budget *budget;
    size_t count;
    if (budget_create(text, "f", &budget, NULL))
        return;
    for (int64_t now_s = 0; now_s < 3 * BUDGET_TUNE_S; now_s += 100) {
        budget_count(budget, service, service, 100000, now_s);
        budget_tune(budget, now_s);
    }
    Sonde__V1__CollectRule **rules = budget_rules(budget, &count);
    for (size_t i = 0; i < count; i++)
        if (count > 1000 || !(rules[i]->probability >= 0 && rules[i]->probability <= 1))
            __builtin_trap();
    budget_report(budget, &count);
    budget_destroy(budget);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = calloc(1, size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    check(text);
    if (size && data[0] % 16 == 0) /* a budget's memory takes a while to clear */
        run(text, text + strlen(text) / 2);
    free(text);
    return 0;
}
