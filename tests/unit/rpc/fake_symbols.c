/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's symbol files: "abcd" is known, the names of "c0de" get better with the third
 * request, those of "dead" never do. Of an upload it counts only the bytes. */
#include "service/engine/annotate/annotate.h"
#include "service/symbol/files/files.h"
#include "tests/unit/rpc/fake_engine.h"
#include "tests/unit/rpc/fake_parts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct improving {
    engine_on_symbols *on_answer;
    void *context;
    bool never;
};

static atomic_uint questions;

static void on_answer(void *context, sonde_err err, const struct sonde_diag *diag,
                      const struct engine_symbol *symbols, size_t count) {
    struct improving *improving = context;
    struct engine_symbol *copy = calloc(count + 1, sizeof *copy);
    bool is_full = !improving->never && atomic_fetch_add(&questions, 1) % 3 == 2;
    for (size_t i = 0; i < count; i++) {
        copy[i] = symbols[i];
        copy[i].quality = is_full ? SYMBOL_FULL : SYMBOL_NAMES;
        copy[i].reason = is_full ? "" : "CONVERTING";
        copy[i].is_improving = !is_full;
    }
    improving->on_answer(improving->context, err, diag, copy, count);
    free(copy);
    free(improving);
}

sonde_err engine_symbolize_files(struct engine *engine, const struct engine_symbol_source *source,
                                 const uint64_t *addresses, size_t count, bool return_addresses,
                                 engine_on_symbols *on_symbols, void *context,
                                 struct sonde_diag *diag) {
    bool never = source->build_id && strcmp(source->build_id, "dead") == 0;
    bool improves = never || (source->build_id && strcmp(source->build_id, "c0de") == 0);
    if (source->build_id && !improves && strcmp(source->build_id, "abcd") != 0)
        return sonde_fail(diag, SONDE_NOT_FOUND, "no file with the build-id %s is known here",
                          source->build_id);
    struct fake_symbols *job = fake_symbols_create(addresses, count, return_addresses);
    job->on_answer = on_symbols;
    job->context = context;
    if (improves) {
        struct improving *improving = calloc(1, sizeof *improving);
        *improving = (struct improving){on_symbols, context, never};
        job->on_answer = on_answer;
        job->context = improving;
    }
    if (!engine_submit(engine, &job->work))
        job->work.run(&job->work);
    return SONDE_OK;
}

static const struct symbol_file known = {.state = SYMBOL_FILE_READY,
                                         .quality = SYMBOL_NAMES,
                                         .identity = "abcd-1",
                                         .build_id = "abcd",
                                         .name = "de\xffmo",
                                         .bytes = 4096,
                                         .used_unix_ns = 7,
                                         .reason = "STRIPPED",
                                         .is_loaded = true};

sonde_err engine_symbol_files(struct engine *engine, struct symbol_file **files, size_t *count,
                              struct sonde_diag *diag) {
    *files = calloc(1, sizeof **files);
    **files = known;
    *count = 1;
    return SONDE_OK;
}

sonde_err engine_symbol_evict(struct engine *engine, const char *id, bool uploads,
                              struct symbol_evicted *evicted, struct sonde_diag *diag) {
    if (id && strcmp(id, "abcd") != 0)
        return sonde_fail(diag, SONDE_NOT_FOUND, "nothing of \"%s\" is here", id);
    *evicted = (struct symbol_evicted){uploads ? 2 : 1, 4096};
    return SONDE_OK;
}

/* A function of one instruction. The build-id "abcd" is known. */
sonde_err engine_annotate(struct engine *engine, const char *build_id,
                          const struct annotate_request *request, struct annotate_answer *answer,
                          struct sonde_diag *diag) {
    *answer = (struct annotate_answer){.path = "/bin/de\xffmo",
                                       .build_id = build_id,
                                       .without_lines = "",
                                       .function_count = 1,
                                       .place_count = 2,
                                       .address_count = request->count,
                                       .instruction_count = 1};
    if (strcmp(build_id, "abcd") != 0)
        return sonde_fail(diag, SONDE_NOT_FOUND, "no file with build-id %s", build_id);
    answer->functions = sonde_arena_alloc(&answer->arena, sizeof *answer->functions);
    answer->addresses =
        sonde_arena_alloc(&answer->arena, (request->count + 1) * sizeof *answer->addresses);
    answer->instructions = sonde_arena_alloc(&answer->arena, sizeof *answer->instructions);
    answer->places = calloc(2, sizeof *answer->places);
    answer->functions[0] = (struct annotate_function){
        .start = 0x1000, .end = 0x1004, .name = "f", .system_name = "f", .file = "f.c", .line = 3};
    answer->places[0] = (struct annotate_place){ANNOTATE_NONE, "f", "f.c", 4};
    answer->places[1] = (struct annotate_place){0, "g", "g.h", 7};
    for (size_t i = 0; i < request->count; i++)
        answer->addresses[i] = (struct annotate_address){request->addresses[i], 0, 1};
    answer->instructions[0] = (struct annotate_instruction){
        .vaddr = 0x1000, .text = "nop", .target_name = "", .place = 1, .size = 4};
    return SONDE_OK;
}

void annotate_finish(struct annotate_answer *answer) {
    free(answer->places);
    sonde_arena_finish(&answer->arena);
}

struct symbol_upload {
    uint64_t size, written;
    char first;
};

sonde_err engine_upload_begin(struct engine *engine, uint64_t size, struct symbol_upload **upload,
                              struct sonde_diag *diag) {
    if (size == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "size_bytes: \"0\" is too small");
    *upload = calloc(1, sizeof **upload);
    (*upload)->size = size;
    return SONDE_OK;
}

sonde_err engine_upload_write(struct symbol_upload *upload, const void *bytes, size_t len,
                              struct sonde_diag *diag) {
    if (len > upload->size - upload->written)
        return sonde_fail(diag, SONDE_TOO_LARGE, "the file is larger than announced");
    if (upload->written == 0 && len > 0)
        upload->first = *(const char *)bytes;
    upload->written += len;
    return SONDE_OK;
}

uint64_t engine_upload_missing(const struct symbol_upload *upload) {
    return upload->size - upload->written;
}

sonde_err engine_upload_finish(struct symbol_upload *upload, struct symbol_file *file,
                               struct sonde_diag *diag) {
    bool good = upload->first == 0x7f;
    *file = known;
    file->kind = SYMBOL_FILE_UPLOAD;
    file->bytes = upload->size;
    memset(file->name, 0, sizeof file->name);
    free(upload);
    return good ? SONDE_OK
                : sonde_fail(diag, SONDE_INVALID_ARGUMENT, "not a 64-bit little-endian ELF file");
}

void engine_upload_abandon(struct symbol_upload *upload) {
    free(upload);
}
