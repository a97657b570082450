/* SPDX-License-Identifier: Apache-2.0
 *
 * What sonded and the worker that disassembles write for each other: the request, and the code.
 *
 *     request:  code_request_header | ranges | wanted u64[]
 *     code:     code_file_header | instructions | texts, each with a NUL
 *
 * The worker has read a hostile file, so code_file_open trusts nothing. Any thread. */
#ifndef SONDE_SERVICE_SYMBOL_CODE_CODE_FILE_H
#define SONDE_SERVICE_SYMBOL_CODE_CODE_FILE_H

#include "service/symbol/code/code.h"

#define CODE_FILE_MAGIC 0x31646f43646e6f53ull /* "SondCod1" */

struct code_request_header {
    uint64_t magic;
    uint32_t range_count, wanted_count;
};

struct code_file_header {
    uint64_t magic;
    uint32_t instruction_count;
    uint32_t is_cut;
    uint64_t text_bytes;
};

void code_request_write(const struct symbol_code_request *request, struct sonde_buf *bytes);
/* False if the bytes are not a request. *request points into them. */
bool code_request_read(struct sonde_slice bytes, struct symbol_code_request *request);

/* Collects instructions. code_writer_finish checks `failed` of both bufs. */
struct code_writer {
    struct sonde_buf instructions, texts;
    uint32_t count;
    bool is_cut;
};
void code_writer_add(struct code_writer *writer, const struct symbol_instruction *instruction,
                     const char *text);
/* Appends the file and frees the writer's memory. False: out of memory. */
bool code_writer_finish(struct code_writer *writer, struct sonde_buf *bytes);

/* Takes the bytes. False, and *code is empty, if they are damaged. */
bool code_file_open(struct sonde_buf *bytes, struct symbol_code *code);

#endif
