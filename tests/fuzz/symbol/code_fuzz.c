/* SPDX-License-Identifier: Apache-2.0
 *
 * The input as code of both machines, whose file must be readable; and as a file of code, which may
 * be refused but must not be believed. The first byte chooses the machine. */
#include "service/symbol/code/code_file.h"
#include "service/symbol/code/disassemble.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct disassembler *disassemblers[2];

static void add(void *context, const struct symbol_instruction *instruction, const char *text) {
    code_writer_add(context, instruction, text);
}

static uint64_t read_all(const struct symbol_code *code) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < code->count; i++)
        sum += code->instructions[i].size + strlen(code->texts + code->instructions[i].text);
    return sum;
}

static void disassemble_it(const uint8_t *data, size_t size) {
    struct code_writer writer = {0};
    struct sonde_buf bytes = {0};
    struct symbol_code code;
    uint64_t end = 0x1000;
    disassemble(disassemblers[data[0] & 1], data + 1, size - 1, end, add, &writer);
    if (!code_writer_finish(&writer, &bytes) || !code_file_open(&bytes, &code))
        abort();
    for (uint32_t i = 0; i < code.count; i++) {
        if (code.instructions[i].vaddr != end) /* all bytes belong to an instruction */
            abort();
        end += code.instructions[i].size;
    }
    if (end != 0x1000 + size - 1)
        abort();
    symbol_code_finish(&code);
}

static void open_it(const uint8_t *data, size_t size) {
    struct code_file_header header = {.magic = CODE_FILE_MAGIC};
    struct sonde_buf bytes = {0};
    struct symbol_code code;
    size_t rest = size > sizeof header ? size - sizeof header : 0;
    header.instruction_count = (uint32_t)(rest / (sizeof(struct symbol_instruction) + 4));
    header.text_bytes = rest - header.instruction_count * sizeof(struct symbol_instruction);
    sonde_buf_append(&bytes, &header, sizeof header);
    sonde_buf_append(&bytes, data + size - rest, rest);
    if (code_file_open(&bytes, &code) && read_all(&code) > (uint64_t)size * size + size)
        abort();
    symbol_code_finish(&code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!disassemblers[0]) {
        disassemblers[0] = disassembler_create(&machine_x86_64);
        disassemblers[1] = disassembler_create(&machine_aarch64);
    }
    if (!disassemblers[0] || !disassemblers[1])
        abort();
    if (size == 0)
        return 0;
    disassemble_it(data, size);
    open_it(data, size);
    return 0;
}
