/* SPDX-License-Identifier: Apache-2.0
 *
 * Large code is decoded as a whole, because on x86-64 only that finds where instructions begin.
 * Those in front of a wanted one are kept in a ring until it is known whether they are wanted. */
#include "service/symbol/code/read_code.h"

#include <stdlib.h>
#include <string.h>

struct held {
    struct symbol_instruction instruction;
    char text[240];
};

struct selection {
    struct code_writer writer;
    const struct symbol_code_request *request;
    bool is_whole;
    uint32_t next_wanted;
    struct held ring[SYMBOL_CODE_AROUND]; /* the last instructions that were not written */
    uint32_t ring_count, ring_at;
    uint32_t after;   /* instructions still to write */
    bool has_skipped; /* instructions since the last written one */
};

static void write_one(struct selection *selection, const struct symbol_instruction *instruction,
                      const char *text) {
    struct symbol_instruction item = *instruction;
    item.is_after_gap = selection->has_skipped;
    selection->has_skipped = false;
    code_writer_add(&selection->writer, &item, text);
}

static void write_held(struct selection *selection) {
    uint32_t first = selection->ring_at + SYMBOL_CODE_AROUND - selection->ring_count;
    for (uint32_t i = 0; i < selection->ring_count; i++) {
        const struct held *held = &selection->ring[(first + i) % SYMBOL_CODE_AROUND];
        write_one(selection, &held->instruction, held->text);
    }
    selection->ring_count = 0;
}

static void hold(struct selection *selection, const struct symbol_instruction *instruction,
                 const char *text) {
    struct held *held = &selection->ring[selection->ring_at];
    held->instruction = *instruction;
    size_t len = strnlen(text, sizeof held->text - 1);
    memcpy(held->text, text, len);
    held->text[len] = 0;
    selection->ring_at = (selection->ring_at + 1) % SYMBOL_CODE_AROUND;
    if (selection->ring_count < SYMBOL_CODE_AROUND)
        selection->ring_count++;
    else
        selection->has_skipped = true;
}

/* Whether a wanted address is inside the instruction. */
static bool is_wanted(struct selection *selection, const struct symbol_instruction *instruction) {
    const struct symbol_code_request *request = selection->request;
    uint64_t end = instruction->vaddr + instruction->size;
    uint32_t *at = &selection->next_wanted;
    while (*at < request->wanted_count && request->wanted[*at] < instruction->vaddr)
        ++*at;
    return *at < request->wanted_count && request->wanted[*at] < end;
}

static void on_each(void *context, const struct symbol_instruction *instruction, const char *text) {
    struct selection *selection = context;
    bool wanted = selection->is_whole || is_wanted(selection, instruction);
    if (wanted) {
        write_held(selection);
        selection->after = SYMBOL_CODE_AROUND + 1;
    }
    if (selection->after == 0) {
        hold(selection, instruction, text);
        return;
    }
    selection->after--;
    write_one(selection, instruction, text);
}

/* A debug file keeps the segments of its program, so only its sections tell that it has no code. */
static bool is_left_out(const struct elf_file *elf, uint64_t vaddr) {
    for (uint32_t i = 0; i < elf->section_count; i++) {
        const Elf64_Shdr *at = &elf->sections[i];
        if (at->sh_type == SHT_NOBITS && (at->sh_flags & SHF_EXECINSTR) &&
            vaddr - at->sh_addr < at->sh_size)
            return true;
    }
    return false;
}

static sonde_err read_range(const struct elf_file *elf, struct disassembler *disassembler,
                            const struct symbol_code_range *range, struct selection *selection) {
    uint64_t offset, available, len = range->end - range->start;
    struct sonde_buf bytes = {0};
    if (range->end <= range->start || len > SYMBOL_CODE_BYTES)
        return SONDE_TOO_LARGE;
    if (is_left_out(elf, range->start) || !elf_offset_of(elf, range->start, &offset, &available))
        return SONDE_NOT_FOUND;
    len = available < len ? available : len;
    sonde_err err = elf_append(elf, offset, len, SYMBOL_CODE_BYTES, &bytes);
    if (err == SONDE_CORRUPT) /* as in a debug file, whose segments have no bytes */
        err = SONDE_NOT_FOUND;
    if (!err) {
        selection->ring_count = selection->after = 0;
        disassemble(disassembler, (const uint8_t *)bytes.data, bytes.len, range->start, on_each,
                    selection);
        selection->has_skipped = true; /* the next range is elsewhere */
    }
    sonde_buf_finish(&bytes);
    return err;
}

sonde_err read_code(const struct elf_file *elf, struct disassembler *disassembler,
                    const struct symbol_code_request *request, struct sonde_buf *out) {
    struct selection *selection = calloc(1, sizeof *selection);
    uint64_t total = 0;
    sonde_err err = selection ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < request->range_count; i++)
        total += request->ranges[i].end - request->ranges[i].start;
    if (selection) {
        selection->request = request;
        selection->is_whole = total <= SYMBOL_CODE_WHOLE;
    }
    for (uint32_t i = 0; i < request->range_count && !err; i++)
        err = read_range(elf, disassembler, &request->ranges[i], selection);
    if (selection && !code_writer_finish(&selection->writer, out) && !err)
        err = SONDE_OUT_OF_MEMORY;
    free(selection);
    return err;
}
