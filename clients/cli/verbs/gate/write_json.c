/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"
#include "clients/cli/verbs/gate/report.h"

#include <math.h>

static void put_text(struct sonde_buf *out, const char *key, const char *text) {
    sonde_buf_printf(out, "\"%s\":", key);
    json_text(out, text);
}

/* JSON has no infinities. */
static void put_number(struct sonde_buf *out, const char *key, double value) {
    if (isfinite(value))
        sonde_buf_printf(out, ",\"%s\":%.9g", key, value);
    else
        sonde_buf_printf(out, ",\"%s\":null", key);
}

static void put_side(const struct gate_report *report, const char *key, int side,
                     struct sonde_buf *out) {
    sonde_buf_printf(out, ",\"%s\":{\"runs\":%zu", key, report->input->counts[side]);
    put_number(out, "samples", report->comparison ? report->comparison->samples[side] : 0);
    sonde_buf_putc(out, '}');
}

static void put_change(struct sonde_buf *out, const struct verdict_change *change) {
    put_number(out, "before", change->before);
    put_number(out, "after", change->after);
    put_number(out, "change", change->change);
    put_number(out, "changeLow", change->low);
    put_number(out, "changeHigh", change->high);
}

static void put_check(const struct gate_report *report, const struct gate_check *check,
                      struct sonde_buf *out) {
    sonde_buf_putc(out, '{');
    put_text(out, "subject", gate_subject(check));
    sonde_buf_putc(out, ',');
    put_text(out, "module", check->function ? check->function->module : "");
    sonde_buf_putc(out, ',');
    put_text(out, "result", gate_result_text(check->result));
    put_number(out, "limit", check->limit);
    if (!check->unmatched) {
        put_change(out, check->function ? &check->function->total[VERDICT_AMOUNT]
                                        : &report->comparison->whole);
        put_number(out, "increase", check->increase);
        put_number(out, "low", check->low);
        put_number(out, "high", check->high);
    }
    sonde_buf_printf(out, ",\"moreRuns\":%zu}", check->more_runs);
}

static void put_cause(const struct sonde_comparison_cause *cause, struct sonde_buf *out) {
    sonde_buf_putc(out, '{');
    put_text(out, "function", cause->function->name);
    sonde_buf_putc(out, ',');
    put_text(out, "module", cause->function->module);
    put_change(out, &cause->function->total[VERDICT_AMOUNT]);
    sonde_buf_puts(out, ",\"callers\":[");
    for (size_t i = 0; i < cause->caller_count; i++) {
        sonde_buf_puts(out, i ? "," : "");
        json_text(out, cause->callers[i]);
    }
    sonde_buf_puts(out, "]}");
}

/* Ends in a comma, which the caller removes. */
static void put_disturbed(struct sonde_buf *out, const struct gate_run *run) {
    sonde_buf_putc(out, '{');
    put_text(out, "run", run->name);
    sonde_buf_putc(out, ',');
    put_text(out, "reason", run->disturbance);
    sonde_buf_puts(out, "},");
}

static void put_lists(const struct gate_report *report, struct sonde_buf *out) {
    const struct gate_decision *decision = report->decision;
    sonde_buf_puts(out, ",\"checks\":[");
    for (size_t i = 0; i < decision->check_count; i++) {
        sonde_buf_puts(out, i ? "," : "");
        put_check(report, &decision->checks[i], out);
    }
    sonde_buf_puts(out, "],\"causes\":[");
    for (size_t i = 0; i < gate_cause_count(report); i++) {
        sonde_buf_puts(out, i ? "," : "");
        put_cause(&report->comparison->causes[i], out);
    }
    sonde_buf_puts(out, "],\"disturbed\":[");
    size_t before = out->len;
    gate_each_disturbed(report, put_disturbed, out);
    if (out->len > before)
        out->len--;
    sonde_buf_puts(out, "]}\n");
}

void gate_write_json(const struct gate_report *report, struct sonde_buf *out) {
    const struct gate_decision *decision = report->decision;
    struct sonde_buf advice = {0};
    gate_put_advice(&advice, report);
    sonde_buf_putc(out, '{');
    put_text(out, "result", gate_result_text(decision->result));
    sonde_buf_putc(out, ',');
    put_text(out, "reason", sonde_buf_slice(&advice).data);
    sonde_buf_putc(out, ',');
    put_text(out, "type", report->comparison ? report->comparison->type.type : "");
    sonde_buf_putc(out, ',');
    put_text(out, "unit", report->comparison ? report->comparison->type.unit : "");
    sonde_buf_putc(out, ',');
    put_text(out, "per", gate_per_text(report));
    put_number(out, "confidence", report->rules->confidence);
    put_number(out, "minEffect", report->rules->min_effect);
    put_number(out, "noiseFloor", report->comparison ? decision->noise : INFINITY);
    sonde_buf_printf(out, ",\"moreRuns\":%zu", decision->more_runs);
    put_side(report, "base", 0, out);
    put_side(report, "new", 1, out);
    put_lists(report, out);
    sonde_buf_finish(&advice);
}
