/* SPDX-License-Identifier: Apache-2.0
 *
 * SARIF 2.1.0 (docs.oasis-open.org/sarif): a result for each check that did not pass, and for each
 * function that explains the change. GitHub refuses a file in which a result has no place in the
 * source. So a result without one is where the first function that explains the change is, or else
 * at a file that is named after the tool. */
#include "api/draw/tree.h"
#include "api/version.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/gate/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define NO_PLACE "sonde-gate"

/* A reference relative to the current folder, which is the repository's; "file:" outside of it. */
static void put_uri(struct sonde_buf *out, const char *path) {
    char folder[PATH_MAX] = "";
    size_t length = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    if (length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/')
        path += length + 1;
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    sonde_buf_puts(out, path[0] == '/' ? "\"file://" : "\"");
    for (; *path; path++) {
        bool is_plain = isalnum((unsigned char)*path) || strchr("/-._~", *path);
        sonde_buf_printf(out, is_plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    sonde_buf_putc(out, '"');
}

static const struct draw_frame *frame_of(const struct gate_report *report,
                                         const struct sonde_comparison_function *function) {
    return draw_tree_frame(report->comparison->tree, function->frame);
}

/* The first cause that has a place in the source; NULL if none has. */
static const struct draw_frame *first_place(const struct gate_report *report) {
    for (size_t i = 0; i < gate_cause_count(report); i++) {
        const struct draw_frame *frame = frame_of(report, report->comparison->causes[i].function);
        if (frame->source)
            return frame;
    }
    return NULL;
}

/* function: NULL = the result is about none. */
static void put_place(const struct gate_report *report,
                      const struct sonde_comparison_function *function, struct sonde_buf *out) {
    const struct draw_frame *frame = function ? frame_of(report, function) : NULL;
    if (!frame || !frame->source)
        frame = first_place(report);
    sonde_buf_puts(out, ",\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":");
    put_uri(out, frame ? frame->source : NO_PLACE);
    sonde_buf_printf(out, "},\"region\":{\"startLine\":%" PRId64 "}}",
                     frame && frame->start_line > 0 ? frame->start_line : 1);
    if (function) {
        sonde_buf_puts(out, ",\"logicalLocations\":[{\"kind\":\"function\",\"name\":");
        json_text(out, function->name);
        sonde_buf_puts(out, "}]");
    }
    sonde_buf_puts(out, "}]");
}

/* Ends in a comma, which the caller removes. */
static void put_result(const struct gate_report *report, const char *rule, const char *level,
                       const char *message, const struct sonde_comparison_function *function,
                       struct sonde_buf *out) {
    sonde_buf_printf(out, "{\"ruleId\":\"%s\",\"level\":\"%s\",\"message\":{\"text\":", rule,
                     level);
    json_text(out, message);
    sonde_buf_putc(out, '}');
    put_place(report, function, out);
    sonde_buf_puts(out, "},");
}

static void put_check(const struct gate_report *report, const struct gate_check *check,
                      struct sonde_buf *out) {
    bool is_failure = check->result == GATE_FAIL;
    struct sonde_buf message = {0};
    sonde_buf_printf(&message, "%s: ", gate_subject(check));
    gate_put_check(&message, report, check);
    put_result(report, is_failure ? "limit-exceeded" : "inconclusive",
               is_failure ? "error" : "warning", sonde_buf_slice(&message).data, check->function,
               out);
    sonde_buf_finish(&message);
}

static void put_cause(const struct gate_report *report, const struct sonde_comparison_cause *cause,
                      struct sonde_buf *out) {
    struct sonde_buf message = {0};
    sonde_buf_printf(&message, "%s: ", cause->function->name);
    gate_put_cause(&message, report, cause);
    put_result(report, "cause", "note", sonde_buf_slice(&message).data, cause->function, out);
    sonde_buf_finish(&message);
}

void gate_write_sarif(const struct gate_report *report, struct sonde_buf *out) {
    const struct gate_decision *decision = report->decision;
    sonde_buf_puts(out, "{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\","
                        "\"version\":\"2.1.0\",\"runs\":[{\"tool\":{\"driver\":{\"name\":"
                        "\"sonde gate\",\"version\":\"" SONDE_VERSION "\",\"rules\":["
                        "{\"id\":\"limit-exceeded\"},{\"id\":\"inconclusive\"},{\"id\":\"cause\"}"
                        "]}},\"results\":[");
    size_t before = out->len;
    if (decision->reason[0])
        put_result(report, "inconclusive", "warning", decision->reason, NULL, out);
    for (size_t i = 0; i < decision->check_count; i++)
        if (decision->checks[i].result != GATE_PASS)
            put_check(report, &decision->checks[i], out);
    for (size_t i = 0; i < gate_cause_count(report); i++)
        put_cause(report, &report->comparison->causes[i], out);
    if (out->len > before)
        out->len--;
    sonde_buf_puts(out, "]}]}\n");
}
