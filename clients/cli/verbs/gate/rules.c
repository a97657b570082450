/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/rules.h"

#include "clients/cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_LIMIT      1000 /* a thousand times the base */
#define SMALLEST_SAFE      0.5
#define LARGEST_CONFIDENCE 0.9999

static sonde_err read_share(const char *option, const char *text, double low, double high,
                            double *share, struct sonde_diag *diag) {
    if (cli_read_share(text, share) && *share >= low && *share <= high)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "--%s: \"%.60s\" is neither a percentage nor a fraction from %g to %g",
                      option, text, low, high);
}

/* ---- Limits of functions ---- */

static sonde_err compile(struct gate_limit *limit, size_t len, struct sonde_diag *diag) {
    char pattern[256], why[128];
    if (len == 0 || len >= sizeof pattern)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--function: \"%.60s\" needs a pattern of at most %zu bytes before the =",
                          limit->text, sizeof pattern - 1);
    memcpy(pattern, limit->text, len);
    pattern[len] = 0;
    int status = regcomp(&limit->pattern, pattern, REG_EXTENDED | REG_NOSUB);
    if (status == 0)
        return SONDE_OK;
    regerror(status, &limit->pattern, why, sizeof why);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "--function: \"%.60s\": %s", pattern, why);
}

static sonde_err read_limit(struct gate_limit *limit, const char *text, struct sonde_diag *diag) {
    const char *sign = strrchr(text, '=');
    limit->text = text;
    if (!sign)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--function: \"%.60s\" has no limit; for example ^parse=5%%", text);
    sonde_err err = read_share("function", sign + 1, 0, LARGEST_LIMIT, &limit->increase, diag);
    return err ? err : compile(limit, (size_t)(sign - text), diag);
}

static sonde_err read_limits(struct gate_rules *rules, const struct sonde_option_list *texts,
                             struct sonde_diag *diag) {
    rules->limits = calloc(texts->count + 1, sizeof *rules->limits);
    if (!rules->limits)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < texts->count; i++) {
        sonde_err err = read_limit(&rules->limits[i], texts->items[i], diag);
        if (err)
            return err;
        rules->limit_count++;
    }
    return SONDE_OK;
}

/* ---- All ---- */

static const char *or_default(const char *text, const char *otherwise) {
    return text ? text : otherwise;
}

sonde_err gate_rules_read(struct gate_rules *rules, const struct gate_rule_texts *texts,
                          struct sonde_diag *diag) {
    *rules = (struct gate_rules){0};
    sonde_err err = read_share("max-increase", or_default(texts->max_increase, GATE_MAX_INCREASE),
                               0, LARGEST_LIMIT, &rules->max_increase, diag);
    if (!err)
        err = read_share("min-effect", or_default(texts->min_effect, GATE_MIN_EFFECT), 0, 1,
                         &rules->min_effect, diag);
    if (!err)
        err = read_share("confidence", or_default(texts->confidence, GATE_CONFIDENCE),
                         SMALLEST_SAFE, LARGEST_CONFIDENCE, &rules->confidence, diag);
    return err ? err : read_limits(rules, texts->functions, diag);
}

void gate_rules_finish(struct gate_rules *rules) {
    for (size_t i = 0; i < rules->limit_count; i++)
        regfree(&rules->limits[i].pattern);
    free(rules->limits);
    *rules = (struct gate_rules){0};
}

static bool read_counts(const char *text, double counts[2]) {
    char *end = NULL;
    counts[0] = counts[1] = strtod(text, &end);
    if (end > text && *end == ',') {
        text = end + 1;
        counts[1] = strtod(text, &end);
    }
    return end > text && *end == 0 && counts[0] > 0 && counts[1] > 0 && isfinite(counts[0]) &&
           isfinite(counts[1]);
}

sonde_err gate_per_read(struct gate_per *per, const char *text, struct sonde_diag *diag) {
    const char *sign = text ? strchr(text, '=') : NULL;
    *per = (struct gate_per){.kind = GATE_PER_DEFAULT, .counts = {1, 1}};
    if (!text)
        return SONDE_OK;
    if (strcmp(text, "run") == 0)
        per->kind = GATE_PER_RUN;
    else if (strcmp(text, "second") == 0)
        per->kind = GATE_PER_SECOND;
    else if (sign && sign > text && (size_t)(sign - text) < sizeof per->name &&
             read_counts(sign + 1, per->counts))
        per->kind = GATE_PER_COUNT;
    else
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "--per: \"%.60s\" is neither run, second nor NAME=N such as "
                          "requests=5000, or requests=5000,6000 for base and new",
                          text);
    if (per->kind == GATE_PER_COUNT)
        memcpy(per->name, text, (size_t)(sign - text));
    return SONDE_OK;
}
