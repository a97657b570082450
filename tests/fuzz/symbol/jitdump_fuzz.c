/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as the records of a jitdump, read at once and in two parts. Both must have the
 * same result, and every offset in it must be in bounds. */
#include "service/symbol/jit/jitdump.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds) {
    if (!holds)
        abort();
}

static void on_stretch(void *context, const struct symbol_interval *range, uint64_t start,
                       uint64_t end) {
    uint64_t *last = context;
    demand(start >= *last && start < end && start >= range->start && end <= range->end);
    *last = end;
}

static void check(const struct symbol_jitdump *dump) {
    struct symbol_overlay ranges = {0};
    uint64_t last = 0;
    for (uint32_t i = 0; i < dump->load_count; i++) {
        const struct symbol_jitdump_load *load = &dump->loads[i];
        demand(load->start < load->end && load->first_row + load->row_count <= dump->row_count);
        demand(load->name_len == 0 || load->name + load->name_len < dump->text.len);
        for (uint32_t k = 0; k < load->row_count; k++) {
            const struct symbol_jitdump_row *row = &dump->rows[load->first_row + k];
            demand(row->file < dump->text.len && row->offset >= symbol_jitdump_shift(dump));
            demand(k == 0 || row->offset >= row[-1].offset);
        }
    }
    demand(symbol_jitdump_intervals(dump, &ranges) == SONDE_OK);
    demand(symbol_overlay_each(&ranges, on_stretch, &last) == SONDE_OK);
    symbol_overlay_finish(&ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t header[10] = {0x4a695444, 1, sizeof header, EM_X86_64};
    struct symbol_jitdump once = {0}, twice = {0};
    uint8_t *bytes = malloc(sizeof header + size);
    demand(bytes != NULL);
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + sizeof header, data, size);
    struct elf_input input = {.bytes = bytes, .fd = -1, .size = sizeof header + size};
    (void)symbol_jitdump_read(&once, &input);
    check(&once);
    input.size = sizeof header + size / 2;
    (void)symbol_jitdump_read(&twice, &input);
    input.size = sizeof header + size;
    (void)symbol_jitdump_read(&twice, &input);
    check(&twice);
    demand(once.load_count == twice.load_count && once.row_count == twice.row_count);
    symbol_jitdump_finish(&once);
    symbol_jitdump_finish(&twice);
    free(bytes);
    return 0;
}
