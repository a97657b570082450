/* SPDX-License-Identifier: Apache-2.0
 *
 * The exporter with made-up records, for tests of the receivers' side: sends --records profiles of
 * --rows stacks each, then one more per line on stdin ("heap": two snapshots), and at the end of
 * stdin stops and prints what was sent and lost as JSON. A line "state" prints the state so far. */
#include "service/export/export.h"
#include "tests/export/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct settings {
    struct export_options exports;
    uint64_t records, rows, name_bytes, retry_ms, deadline_ms;
};

#define OPTION(name, argument, kind, field, low, high)                                             \
    {                                                                                              \
        name, 0, argument, NULL, SONDE_OPTION_##kind, offsetof(struct settings, field), low, high, \
            ""                                                                                     \
    }

static const struct sonde_option table[] = {
    OPTION("otlp", "URL", TEXT, exports.otlp.url, 0, 0),
    OPTION("otlp-header", "LINE", LIST, exports.otlp.headers, 0, 0),
    OPTION("otlp-header-file", "FILE", TEXT, exports.otlp.header_file, 0, 0),
    OPTION("otlp-ca", "FILE", TEXT, exports.otlp.ca_file, 0, 0),
    OPTION("otlp-cert", "FILE", TEXT, exports.otlp.cert_file, 0, 0),
    OPTION("otlp-key", "FILE", TEXT, exports.otlp.key_file, 0, 0),
    OPTION("pyroscope", "URL", TEXT, exports.pyroscope.url, 0, 0),
    OPTION("pyroscope-header", "LINE", LIST, exports.pyroscope.headers, 0, 0),
    OPTION("queue-mib", "N", NUMBER, exports.queue_mib, 1, 1000),
    OPTION("records", "N", NUMBER, records, 0, 100000),
    OPTION("rows", "N", NUMBER, rows, 1, 1000000),
    OPTION("name-bytes", "N", NUMBER, name_bytes, 1, 10000000),
    OPTION("retry-ms", "N", NUMBER, retry_ms, 1, 100000),
    OPTION("deadline-ms", "N", NUMBER, deadline_ms, 1, 100000),
};

static const struct sonde_options options = {
    .usage = "driver", .about = "", .table = table, .count = sizeof table / sizeof table[0]};

static void log_line(const char *line) {
    fprintf(stderr, "%s\n", line);
}

static void print_states(struct exporter *exporter) {
    struct sender_state states[EXPORT_MAX_DESTINATIONS];
    size_t count = export_states(exporter, states);
    printf("{");
    for (size_t i = 0; i < count; i++) {
        printf("%s\"%s\": {\"sent\": %" PRIu64 ", \"retries\": %" PRIu64 ", \"trouble\": \"%s\"",
               i ? ", " : "", states[i].name, states[i].sent, states[i].retries, states[i].trouble);
        for (int cause = 0; cause < LOSS_CAUSES; cause++)
            printf(", \"%s\": %" PRIu64, sender_loss_names[cause], states[i].lost[cause]);
        printf(", \"queue_bytes\": %" PRIu64 "}", states[i].queue_bytes);
    }
    printf("}\n");
    fflush(stdout);
}

static void send_one(struct exporter *exporter, const struct settings *settings, uint64_t number) {
    struct record record = make_cpu_record(number, settings->rows, settings->name_bytes);
    export_record(exporter, &record);
    sonde_profile_destroy(record.profile);
}

static void send_heaps(struct exporter *exporter) {
    _Atomic uint32_t room = 100;
    struct heap_delta delta = {.room = &room};
    struct record records[2];
    for (int snapshot = 0; snapshot < 2; snapshot++) {
        size_t count = make_heap_records(&delta, snapshot, 1, records);
        for (size_t i = 0; i < count; i++) {
            export_record(exporter, &records[i]);
            sonde_profile_destroy(records[i].profile);
        }
    }
    heap_delta_finish(&delta);
}

int main(int argc, char **argv) {
    struct settings settings = {.rows = 3, .name_bytes = 1, .exports = {.log = log_line}};
    struct sonde_diag diag = {0};
    struct exporter *exporter = NULL;
    char line[64];
    sonde_err err = sonde_options_read(&options, &settings, false, &argc, argv, &diag);
    settings.exports.retry_ms = (uint32_t)settings.retry_ms;
    settings.exports.deadline_ms = (uint32_t)settings.deadline_ms;
    if (!err)
        err = export_create(&settings.exports, &exporter, &diag);
    if (err || !exporter) {
        fprintf(stderr, "driver: %s\n", sonde_diag_text(&diag, err));
        return 2;
    }
    uint64_t number = 0;
    while (number < settings.records)
        send_one(exporter, &settings, number++);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "state\n") == 0)
            print_states(exporter);
        else if (strcmp(line, "heap\n") == 0)
            send_heaps(exporter);
        else
            send_one(exporter, &settings, number++);
    }
    export_stop(exporter);
    print_states(exporter);
    export_destroy(exporter);
    return 0;
}
