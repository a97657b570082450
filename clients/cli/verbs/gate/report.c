/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/report.h"

#include "clients/cli/output.h"

#include <string.h>

const char gate_report_extensions[] = ".txt, .md, .json, .xml (JUnit) or .sarif";

static const struct {
    const char *extension;
    gate_writer *write;
} formats[] = {
    {".txt", gate_write_text},  {".md", gate_write_markdown}, {".json", gate_write_json},
    {".xml", gate_write_junit}, {".sarif", gate_write_sarif},
};

gate_writer *gate_writer_for(const char *path) {
    size_t len = strlen(path);
    if (strcmp(path, "-") == 0)
        return gate_write_text;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        size_t end = strlen(formats[i].extension);
        if (len > end && strcmp(path + len - end, formats[i].extension) == 0)
            return formats[i].write;
    }
    return NULL;
}

sonde_err gate_report_write(const struct gate_report *report, const char *path,
                            struct sonde_diag *diag) {
    struct output output = {.fd = -1};
    struct sonde_buf text = {0};
    gate_writer_for(path)(report, &text);
    sonde_err err = text.failed ? sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory")
                                : output_open(&output, path, diag);
    if (!err)
        err = output_write(&output, text.data, text.len, diag);
    if (!err)
        err = output_commit(&output, diag);
    output_finish(&output);
    sonde_buf_finish(&text);
    return err;
}
