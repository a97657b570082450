/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a perf.data. What is delivered must be within its record: every pointer is read. */
#include "service/host/perf_file/perf_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum;

static void add_words(const uint64_t *words, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        sum += words[i];
}

static void on_sample(const struct perf_file *file, const struct perf_file_sample *sample) {
    if (!perf_file_event(file, sample->event) || sample->kernel_count > PERF_FILE_MAX_CHAIN ||
        sample->user_count > PERF_FILE_MAX_CHAIN)
        abort();
    add_words(sample->kernel, sample->kernel_count);
    add_words(sample->user, sample->user_count);
    for (size_t i = 0; i < sample->stack_bytes; i++)
        sum += sample->stack[i];
}

static void on_record(void *context, const struct perf_file_record *record) {
    const struct perf_file *file = context;
    if (record->kind == PERF_FILE_SAMPLE)
        on_sample(file, &record->sample);
    else if (record->kind == PERF_FILE_COMM)
        sum += strlen(record->comm.name);
    else if (record->kind == PERF_FILE_MMAP && strlen(record->mmap.build_id) < PERF_FILE_BUILD_ID)
        sum += strlen(record->mmap.path) + strlen(perf_file_build_id(file, record->mmap.path));
    else if (record->kind >= PERF_FILE_KINDS || record->kind == PERF_FILE_MMAP)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct perf_file *file;
    struct sonde_diag diag = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    if (perf_file_open(fd, &file, &diag) == SONDE_OK) {
        sonde_err err = perf_file_read(file, on_record, file, &diag);
        if (err && !diag.text[0])
            abort();
        sum += strlen(perf_file_os_release(file)) + perf_file_notes(file)->invalid;
        if (perf_file_event_count(file) > PERF_FILE_MAX_EVENTS)
            abort();
        perf_file_close(file);
    } else if (!diag.text[0]) {
        abort();
    }
    close(fd);
    return 0;
}
