/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports of `sonde gate`. Names in them come from profiled programs and are escaped. Main
 * thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_GATE_REPORT_H
#define SONDE_CLIENTS_CLI_VERBS_GATE_REPORT_H

#include "clients/cli/verbs/gate/decide.h"
#include "clients/cli/verbs/gate/input.h"

#define GATE_MAX_CAUSES 10

struct gate_report {
    const struct gate_input *input;
    const struct gate_rules *rules;
    const struct gate_per *per;
    const struct gate_decision *decision;
    const struct sonde_comparison *comparison; /* NULL: a side has no run */
};

typedef void gate_writer(const struct gate_report *report, struct sonde_buf *out);
gate_writer gate_write_text, gate_write_markdown, gate_write_json, gate_write_junit,
    gate_write_sarif;

/* The writer for a file's extension, text for "-"; NULL if there is none. */
gate_writer *gate_writer_for(const char *path);
/* ".txt, .md, .json, .xml (JUnit) or .sarif" */
extern const char gate_report_extensions[];
/* Writes the report to stdout for "-", or to the file, which appears when it is complete. */
SONDE_MUST_USE sonde_err gate_report_write(const struct gate_report *report, const char *path,
                                           struct sonde_diag *diag);

/* ---- Parts of reports, as plain text ---- */

/* "total", or the function's name, or the limit that nothing matches. */
const char *gate_subject(const struct gate_check *check);
/* "1.02 s → 1.07 s per run, +5.1 % (+4.0 % to +6.2 %), limit +3 %" */
void gate_put_check(struct sonde_buf *out, const struct gate_report *report,
                    const struct gate_check *check);
/* "+48 ms per run, +4.7 % of the total (+3.9 % to +5.5 %)" */
void gate_put_cause(struct sonde_buf *out, const struct gate_report *report,
                    const struct sonde_comparison_cause *cause);
/* "8 base runs with 9,980 samples, 8 new runs with 10,203 samples" */
void gate_put_runs(struct sonde_buf *out, const struct gate_report *report);
/* "noise floor: ± 1.1 % of the total"; nothing if it is not known. */
void gate_put_noise(struct sonde_buf *out, const struct gate_report *report);
/* Why the result is INCONCLUSIVE, and what to do; nothing for another result. */
void gate_put_advice(struct sonde_buf *out, const struct gate_report *report);
/* "run", "second", "requests" */
const char *gate_per_text(const struct gate_report *report);

/* The number of causes that are large enough to be named. */
size_t gate_cause_count(const struct gate_report *report);
/* Calls `each` for every run that was disturbed. */
void gate_each_disturbed(const struct gate_report *report,
                         void (*each)(struct sonde_buf *out, const struct gate_run *run),
                         struct sonde_buf *out);

#endif
