/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/code/code_file.h"

#include <string.h>

/* ---- the request ---- */

void code_request_write(const struct symbol_code_request *request, struct sonde_buf *bytes) {
    const struct code_request_header header = {CODE_FILE_MAGIC, request->range_count,
                                               request->wanted_count};
    sonde_buf_append(bytes, &header, sizeof header);
    sonde_buf_append(bytes, request->ranges, request->range_count * sizeof *request->ranges);
    sonde_buf_append(bytes, request->wanted, request->wanted_count * sizeof *request->wanted);
}

bool code_request_read(struct sonde_slice bytes, struct symbol_code_request *request) {
    struct code_request_header header;
    if (bytes.len < sizeof header)
        return false;
    memcpy(&header, bytes.data, sizeof header);
    if (header.magic != CODE_FILE_MAGIC || header.range_count > SYMBOL_CODE_RANGES ||
        header.wanted_count > SYMBOL_CODE_WANTED ||
        bytes.len != sizeof header + header.range_count * sizeof *request->ranges +
                         header.wanted_count * sizeof *request->wanted)
        return false;
    *request = (struct symbol_code_request){
        .ranges = (const void *)(bytes.data + sizeof header),
        .range_count = header.range_count,
        .wanted_count = header.wanted_count,
    };
    request->wanted = (const void *)(request->ranges + header.range_count);
    return true;
}

/* ---- the code ---- */

void code_writer_add(struct code_writer *writer, const struct symbol_instruction *instruction,
                     const char *text) {
    struct symbol_instruction item = *instruction;
    if (writer->count == SYMBOL_CODE_INSTRUCTIONS) {
        writer->is_cut = true;
        return;
    }
    item.text = (uint32_t)writer->texts.len;
    sonde_buf_append(&writer->instructions, &item, sizeof item);
    sonde_buf_append(&writer->texts, text, strlen(text) + 1);
    writer->count++;
}

bool code_writer_finish(struct code_writer *writer, struct sonde_buf *bytes) {
    const struct code_file_header header = {CODE_FILE_MAGIC, writer->count, writer->is_cut,
                                            writer->texts.len};
    bool good = !writer->instructions.failed && !writer->texts.failed;
    sonde_buf_append(bytes, &header, sizeof header);
    sonde_buf_append(bytes, writer->instructions.data, writer->instructions.len);
    sonde_buf_append(bytes, writer->texts.data, writer->texts.len);
    sonde_buf_finish(&writer->instructions);
    sonde_buf_finish(&writer->texts);
    return good && !bytes->failed;
}

static bool is_good(const struct symbol_instruction *item, uint64_t least, uint64_t text_bytes) {
    return item->vaddr >= least && item->size > 0 && item->vaddr <= UINT64_MAX - item->size &&
           item->kind < SYMBOL_CODE_KINDS && item->text < text_bytes;
}

static bool check(const struct sonde_buf *bytes, struct symbol_code *code) {
    struct code_file_header header;
    if (bytes->failed || bytes->len < sizeof header)
        return false;
    memcpy(&header, bytes->data, sizeof header);
    size_t rest = bytes->len - sizeof header;
    if (header.magic != CODE_FILE_MAGIC || header.instruction_count > SYMBOL_CODE_INSTRUCTIONS ||
        header.text_bytes > rest ||
        header.instruction_count * sizeof *code->instructions != rest - header.text_bytes)
        return false;
    code->instructions = (const void *)(bytes->data + sizeof header);
    code->count = header.instruction_count;
    code->texts = (const char *)(code->instructions + code->count);
    code->is_cut = header.is_cut != 0;
    if (code->count > 0 && (header.text_bytes == 0 || code->texts[header.text_bytes - 1] != 0))
        return false;
    uint64_t least = 0;
    for (uint32_t i = 0; i < code->count; i++) {
        if (!is_good(&code->instructions[i], least, header.text_bytes))
            return false;
        least = code->instructions[i].vaddr + code->instructions[i].size;
    }
    return true;
}

bool code_file_open(struct sonde_buf *bytes, struct symbol_code *code) {
    *code = (struct symbol_code){0};
    if (!check(bytes, code)) {
        *code = (struct symbol_code){0};
        sonde_buf_finish(bytes);
        return false;
    }
    code->bytes = *bytes;
    *bytes = (struct sonde_buf){0};
    return true;
}

void symbol_code_finish(struct symbol_code *code) {
    sonde_buf_finish(&code->bytes);
    *code = (struct symbol_code){0};
}
