/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/perf_data/perf_data.h"

#include "api/profile/pprof/pprof.h"
#include "api/settings/own_data_dir.h"
#include "service/engine/once/once.h"
#include "service/engine/perf_data/parts.h"

#include <sys/resource.h>
#include <unistd.h>

#define MOST_BYTES (4ull << 30) /* of memory */

struct reading {
    struct recorded_code code;
    struct recorded_processes processes;
    struct recorded_counts counts;
    bool lacks_memory;
};

static void on_record(void *context, const struct perf_file_record *record) {
    struct reading *reading = context;
    bool ok = true;
    if (reading->lacks_memory)
        return;
    if (record->kind == PERF_FILE_SAMPLE) {
        ok = recorded_counts_add(&reading->counts, &reading->code, &reading->processes, record);
    } else if (record->kind == PERF_FILE_LOST) {
        reading->counts.lost += record->lost;
    } else if (record->kind == PERF_FILE_LOST_SAMPLES) {
        reading->counts.lost_samples += record->lost;
    } else {
        struct mapping *mapping =
            record->kind == PERF_FILE_MMAP ? recorded_code_mapping(&reading->code, record) : NULL;
        ok = recorded_processes_follow(&reading->processes, record, mapping);
        mapping_release(mapping);
    }
    reading->lacks_memory |= !ok;
}

static sonde_err read_records(struct reading *reading, struct perf_file *file,
                              const struct perf_data_options *options,
                              struct sonde_profile **profile, struct sonde_diag *diag) {
    recorded_processes_init(&reading->processes);
    sonde_err err = recorded_counts_init(&reading->counts);
    if (err)
        err = sonde_fail(diag, err, "out of memory");
    else
        err = recorded_code_init(&reading->code, file, options, diag);
    if (!err)
        err = perf_file_read(file, on_record, reading, diag);
    if (!err && reading->lacks_memory)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (err)
        return err;
    recorded_code_open_kernel(&reading->code);
    return recorded_profile(&reading->counts, &reading->code, &reading->processes, profile, diag);
}

sonde_err perf_data_read(int fd, const struct perf_data_options *options,
                         struct sonde_profile **profile, struct sonde_diag *diag) {
    struct perf_file *file;
    struct reading reading = {0};
    *profile = NULL;
    sonde_err err = perf_file_open(fd, &file, diag);
    if (err)
        return err;
    err = read_records(&reading, file, options, profile, diag);
    recorded_counts_finish(&reading.counts);
    recorded_processes_finish(&reading.processes);
    recorded_code_finish(&reading.code);
    perf_file_close(file);
    return err;
}

/* ---- the process ---- */

/* A file of compressed records can ask for any amount. */
static void limit_memory(void) {
    struct rlimit data;
    if (getrlimit(RLIMIT_DATA, &data) != 0 || data.rlim_cur <= MOST_BYTES)
        return;
    data.rlim_cur = MOST_BYTES;
    (void)setrlimit(RLIMIT_DATA, &data);
}

void perf_data_main(int argc, char **argv) {
    if (!once_is_asked(argc, argv, PERF_DATA_ARGUMENT))
        return;
    struct sonde_profile *profile = NULL;
    struct sonde_buf bytes = {0};
    struct sonde_diag diag = {0};
    limit_memory();
    const struct perf_data_options options = {.data_dir = own_data_dir(),
                                              .worker = "/proc/self/exe"};
    sonde_err err = once_begin(&diag);
    if (!err)
        err = perf_data_read(STDIN_FILENO, &options, &profile, &diag);
    if (!err)
        err = sonde_pprof_write(profile, 0, &bytes, &diag);
    if (!err)
        err = once_write(bytes.data, bytes.len, &diag);
    once_end(err, &diag);
}
