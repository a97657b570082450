/* SPDX-License-Identifier: Apache-2.0
 *
 * JUnit's XML: each check is a test case. INCONCLUSIVE is an error and not "skipped", which CI
 * systems count as passed. */
#include "api/draw/render.h"
#include "clients/cli/verbs/gate/report.h"

#include <string.h>

static size_t count(const struct gate_report *report, enum gate_result result) {
    const struct gate_decision *decision = report->decision;
    size_t found = 0;
    for (size_t i = 0; i < decision->check_count; i++)
        found += decision->checks[i].result == result;
    return found;
}

static void put_problem(struct sonde_buf *out, enum gate_result result, const char *message) {
    const char *element = result == GATE_FAIL ? "failure" : "error";
    sonde_buf_printf(out, "<%s type=\"%s\" message=\"", element, gate_result_text(result));
    draw_xml(out, message, 0);
    sonde_buf_puts(out, "\"/>");
}

static void put_case(struct sonde_buf *out, const char *name, enum gate_result result,
                     const char *message) {
    sonde_buf_puts(out, "    <testcase classname=\"sonde.gate\" name=\"");
    draw_xml(out, name, 0);
    sonde_buf_puts(out, "\">");
    if (result != GATE_PASS)
        put_problem(out, result, message);
    sonde_buf_puts(out, "</testcase>\n");
}

static void put_checks(const struct gate_report *report, struct sonde_buf *out) {
    for (size_t i = 0; i < report->decision->check_count; i++) {
        const struct gate_check *check = &report->decision->checks[i];
        struct sonde_buf message = {0};
        gate_put_check(&message, report, check);
        if (report->decision->reason[0])
            sonde_buf_printf(&message, "; %s", report->decision->reason);
        put_case(out, gate_subject(check), check->result, sonde_buf_slice(&message).data);
        sonde_buf_finish(&message);
    }
}

/* draw_xml replaces line ends. */
static void put_lines(struct sonde_buf *out, char *text) {
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        draw_xml(out, line, 0);
        sonde_buf_putc(out, '\n');
    }
}

void gate_write_junit(const struct gate_report *report, struct sonde_buf *out) {
    size_t checks = report->decision->check_count;
    struct sonde_buf text = {0};
    gate_write_text(report, &text);
    sonde_buf_printf(out,
                     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<testsuites>\n  <testsuite name=\"sonde gate\" tests=\"%zu\" "
                     "failures=\"%zu\" errors=\"%zu\">\n",
                     checks ? checks : 1, count(report, GATE_FAIL),
                     checks ? count(report, GATE_INCONCLUSIVE) : 1);
    if (checks)
        put_checks(report, out);
    else
        put_case(out, "comparison", GATE_INCONCLUSIVE, report->decision->reason);
    sonde_buf_puts(out, "    <system-out>");
    if (!text.failed)
        put_lines(out, text.data);
    sonde_buf_puts(out, "</system-out>\n  </testsuite>\n</testsuites>\n");
    sonde_buf_finish(&text);
}
