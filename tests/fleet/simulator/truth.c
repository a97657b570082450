/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/simulator/truth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *const truth_event_names[TRUTH_EVENTS] = {"on-cpu", "off-cpu"};

void truth_init(struct truth *truth, const struct pool *pool) {
    *truth = (struct truth){.pool = pool};
    truth->sums = calloc(pool->service_count, sizeof *truth->sums);
}

void truth_finish(struct truth *truth) {
    free(truth->sums);
    free(truth->doubts);
}

void truth_add(struct truth *truth, size_t service, int event, const struct truth_sums *sums,
               int sign) {
    struct truth_sums *sum = &truth->sums[service][event];
    sum->windows += sign * sums->windows;
    sum->samples += sign * sums->samples;
    sum->value += sign * sums->value;
}

void truth_doubt(struct truth *truth, const struct truth_doubt *doubt) {
    if (truth->doubt_count == truth->doubt_capacity) {
        truth->doubt_capacity = truth->doubt_capacity ? 2 * truth->doubt_capacity : 64;
        truth->doubts =
            realloc(truth->doubts, truth->doubt_capacity * sizeof *truth->doubts); // NOLINT
        if (!truth->doubts)
            abort();
    }
    truth->doubts[truth->doubt_count++] = *doubt;
}

static void write_sums(FILE *file, const struct truth_sums *sums) {
    fprintf(file, "{\"windows\": %" PRId64 ", \"samples\": %" PRId64 ", \"value\": %" PRId64 "}",
            sums->windows, sums->samples, sums->value);
}

static void write_services(FILE *file, const struct truth *truth) {
    const char *comma = "";
    for (size_t i = 0; i < truth->pool->service_count; i++) {
        for (int event = 0; event < TRUTH_EVENTS; event++) {
            if (!truth->sums[i][event].windows)
                continue;
            fprintf(file, "%s\n  {\"service\": \"%s\", \"event\": \"%s\", \"sums\": ", comma,
                    truth->pool->services[i].name, truth_event_names[event]);
            write_sums(file, &truth->sums[i][event]);
            fputc('}', file);
            comma = ",";
        }
    }
}

static void write_doubts(FILE *file, const struct truth *truth) {
    for (size_t i = 0; i < truth->doubt_count; i++) {
        const struct truth_doubt *doubt = &truth->doubts[i];
        fprintf(file,
                "%s\n  {\"service\": \"%s\", \"event\": \"%s\", \"host\": \"%s\", \"instance\": "
                "\"%s\", \"begin_unix_s\": %" PRId64 ", \"sums\": ",
                i ? "," : "", truth->pool->services[doubt->service].name,
                truth_event_names[doubt->event], doubt->host, doubt->instance, doubt->begin_unix_s);
        write_sums(file, &doubt->sums);
        fputc('}', file);
    }
}

bool truth_write(const struct truth *truth, const char *path) {
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.new", path) >= (int)sizeof temporary)
        return false;
    FILE *file = fopen(temporary, "w");
    if (!file)
        return false;
    fprintf(file,
            "{\"recorded\": %" PRIu64 ", \"merged\": %" PRIu64 ", \"lost_by_memory\": %" PRIu64
            ", \"lost_by_restart\": %" PRIu64 ", \"acknowledged\": %" PRIu64 ",\n \"services\": [",
            truth->recorded, truth->merged, truth->lost_by_memory, truth->lost_by_restart,
            truth->acknowledged);
    write_services(file, truth);
    fputs("],\n \"doubts\": [", file);
    write_doubts(file, truth);
    fputs("]}\n", file);
    bool is_written = !ferror(file);
    return fclose(file) == 0 && is_written && rename(temporary, path) == 0;
}
