/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as .eh_frame or .debug_frame of either machine. The first byte has the options; the
 * rest is the section. */
#include "service/machine/machine.h"
#include "service/unwind/cfi/fde_reader.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const struct machine *machine = machine_of(data[0] & 8 ? EM_AARCH64 : EM_X86_64);
    struct frames frames = {.machine = machine->cfi, .origin = 0x1000, .range_count = 1};
    struct unwind_rows rows;
    struct sonde_buf table = {0};
    struct cfi_section section = {.data = data + 1,
                                  .size = size - 1,
                                  .vaddr = 0x2000,
                                  .data_vaddr = data[0] & 4 ? 0x3000 : 0,
                                  .debug = data[0] & 1};
    frames.ranges[0].end = 1u << 22;
    unwind_rows_init(&rows);
    rows.origin = frames.origin;
    rows.machine = machine->elf;
    sonde_err err = unwind_frames_add(&frames, &section, data[0] & 2);
    if (err == SONDE_OK)
        err = unwind_frames_run(&frames, &rows);
    if (err == SONDE_OK && unwind_rows_write(&rows, &table) == SONDE_OK &&
        unwind_table_check_for(machine->elf, table.data, table.len) != SONDE_OK)
        abort();
    sonde_buf_finish(&table);
    unwind_rows_finish(&rows);
    unwind_frames_finish(&frames);
    return 0;
}
