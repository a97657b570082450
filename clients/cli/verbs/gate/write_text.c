/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports that people read: plain text, and Markdown that fits a comment on a pull request. */
#include "api/draw/names/readable_name.h"
#include "api/text/utf8.h"
#include "clients/cli/verbs/gate/report.h"

#include <string.h>

#define NAME 100

/* A readable name. It may contain what changes a terminal's state. */
static void put_name(struct sonde_buf *out, const char *full) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, full, true);
    const char *name = sonde_buf_slice(&readable).data;
    size_t len = strnlen(name, NAME);
    for (size_t i = 0; i < len;) {
        size_t step = sonde_utf8_printable(name + i, len - i);
        if (step)
            sonde_buf_append(out, name + i, step);
        else
            sonde_buf_putc(out, '?');
        i += step ? step : 1;
    }
    sonde_buf_finish(&readable);
}

/* A code span in a table: it ends at a backtick, and a cell ends at a bar. */
static void put_code(struct sonde_buf *out, const char *name) {
    struct sonde_buf plain = {0};
    put_name(&plain, name);
    sonde_buf_putc(out, '`');
    for (const char *at = sonde_buf_slice(&plain).data; *at; at++)
        if (*at == '|')
            sonde_buf_puts(out, "\\|");
        else
            sonde_buf_putc(out, *at == '`' ? '\'' : *at);
    sonde_buf_putc(out, '`');
    sonde_buf_finish(&plain);
}

static void put_callers(struct sonde_buf *out, const struct sonde_comparison_cause *cause,
                        void (*put)(struct sonde_buf *out, const char *name)) {
    for (size_t i = 0; i < cause->caller_count; i++) {
        sonde_buf_puts(out, i ? " ← " : "");
        put(out, cause->callers[i]);
    }
    if (cause->has_more_callers)
        sonde_buf_puts(out, " ← …");
}

static void put_if(struct sonde_buf *out, const char *before,
                   void (*put)(struct sonde_buf *out, const struct gate_report *report),
                   const struct gate_report *report) {
    struct sonde_buf text = {0};
    put(&text, report);
    if (text.len)
        sonde_buf_printf(out, "%s%s\n", before, text.data);
    sonde_buf_finish(&text);
}

/* A pattern may match hundreds of functions: those within their limits are only counted. */
static bool is_listed(const struct gate_check *check) {
    return !check->function || check->result != GATE_PASS;
}

static void put_left_out(struct sonde_buf *out, const struct gate_report *report) {
    const struct gate_decision *decision = report->decision;
    size_t passed = 0;
    for (size_t i = 0; i < decision->check_count; i++)
        passed += !is_listed(&decision->checks[i]);
    if (passed)
        sonde_buf_printf(out, "%zu function%s within the limit", passed,
                         passed == 1 ? " is" : "s are");
    if (decision->left_out)
        sonde_buf_printf(out, "%s%zu more checks are left out", passed ? ", " : "",
                         decision->left_out);
}

/* ---- Text ---- */

static void put_disturbed(struct sonde_buf *out, const struct gate_run *run) {
    sonde_buf_printf(out, "disturbed: %s: %s\n", run->name, run->disturbance);
}

static void put_text_cause(struct sonde_buf *out, const struct gate_report *report,
                           const struct sonde_comparison_cause *cause) {
    sonde_buf_puts(out, "  ");
    gate_put_cause(out, report, cause);
    sonde_buf_puts(out, ": ");
    put_name(out, cause->function->name);
    if (cause->caller_count)
        sonde_buf_puts(out, "\n    called by ");
    put_callers(out, cause, put_name);
    sonde_buf_putc(out, '\n');
}

void gate_write_text(const struct gate_report *report, struct sonde_buf *out) {
    const struct gate_decision *decision = report->decision;
    size_t causes = gate_cause_count(report);
    sonde_buf_printf(out, "%s\n", gate_result_text(decision->result));
    put_if(out, "", gate_put_advice, report);
    for (size_t i = 0; i < decision->check_count; i++) {
        const struct gate_check *check = &decision->checks[i];
        if (!is_listed(check))
            continue;
        sonde_buf_printf(out, "%s ", gate_result_text(check->result));
        put_name(out, gate_subject(check));
        sonde_buf_puts(out, ": ");
        gate_put_check(out, report, check);
        sonde_buf_putc(out, '\n');
    }
    put_if(out, "", put_left_out, report);
    if (causes)
        sonde_buf_puts(out, "explained by\n");
    for (size_t i = 0; i < causes; i++)
        put_text_cause(out, report, &report->comparison->causes[i]);
    put_if(out, "", gate_put_noise, report);
    put_if(out, "", gate_put_runs, report);
    gate_each_disturbed(report, put_disturbed, out);
}

/* ---- Markdown ---- */

static void put_disturbed_item(struct sonde_buf *out, const struct gate_run *run) {
    sonde_buf_puts(out, "- disturbed: ");
    put_code(out, run->name);
    sonde_buf_printf(out, ": %s\n", run->disturbance);
}

static void put_checks(const struct gate_report *report, struct sonde_buf *out) {
    const struct gate_decision *decision = report->decision;
    if (decision->check_count)
        sonde_buf_puts(out, "| check | result | change |\n|---|---|---|\n");
    for (size_t i = 0; i < decision->check_count; i++) {
        const struct gate_check *check = &decision->checks[i];
        if (!is_listed(check))
            continue;
        sonde_buf_puts(out, "| ");
        put_code(out, gate_subject(check));
        sonde_buf_printf(out, " | %s | ", gate_result_text(check->result));
        gate_put_check(out, report, check);
        sonde_buf_puts(out, " |\n");
    }
}

static void put_causes(const struct gate_report *report, struct sonde_buf *out) {
    size_t count = gate_cause_count(report);
    if (count)
        sonde_buf_puts(out, "\n| explained by | change | called by |\n|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        const struct sonde_comparison_cause *cause = &report->comparison->causes[i];
        sonde_buf_puts(out, "| ");
        put_code(out, cause->function->name);
        sonde_buf_puts(out, " | ");
        gate_put_cause(out, report, cause);
        sonde_buf_puts(out, " | ");
        put_callers(out, cause, put_code);
        sonde_buf_puts(out, " |\n");
    }
}

void gate_write_markdown(const struct gate_report *report, struct sonde_buf *out) {
    sonde_buf_printf(out, "## Performance: %s\n\n", gate_result_text(report->decision->result));
    put_checks(report, out);
    put_causes(report, out);
    sonde_buf_putc(out, '\n');
    put_if(out, "- ", gate_put_advice, report);
    put_if(out, "- ", put_left_out, report);
    put_if(out, "- ", gate_put_noise, report);
    put_if(out, "- ", gate_put_runs, report);
    gate_each_disturbed(report, put_disturbed_item, out);
}
