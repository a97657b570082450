/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/annotate/code_message.h"

#include "service/rpc/base/dictionary.h"
#include "service/rpc/base/text.h"

#include <string.h>

#define MAX_MAPPINGS  8192u
#define MAX_ADDRESSES 65536u

/* ---- the request ---- */

static sonde_err check(const Sonde__V1__GetCodeRequest *message, struct sonde_diag *diag) {
    if (message->n_mappings > MAX_MAPPINGS)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%zu mappings: at most %u", message->n_mappings,
                          MAX_MAPPINGS);
    if (message->n_addresses > MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "%zu addresses: at most %u", message->n_addresses,
                          MAX_ADDRESSES);
    if (message->wait_ms > CODE_MAX_WAIT_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "wait_ms: %u is not 0 to %u",
                          message->wait_ms, CODE_MAX_WAIT_MS);
    return SONDE_OK;
}

sonde_err code_request_from(const Sonde__V1__GetCodeRequest *message, struct sonde_arena *arena,
                            struct annotate_request *request, struct sonde_diag *diag) {
    sonde_err err = check(message, diag);
    if (err)
        return err;
    struct engine_symbol_mapping *mappings =
        sonde_arena_alloc(arena, (message->n_mappings + 1) * sizeof *mappings);
    if (!mappings)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < message->n_mappings; i++) {
        const Sonde__V1__SymbolMapping *from = message->mappings[i];
        mappings[i] = (struct engine_symbol_mapping){
            .start = from->start, .end = from->limit, .offset = from->offset, .build_id = ""};
    }
    *request = (struct annotate_request){
        .mappings = mappings,
        .mapping_count = message->n_mappings,
        .addresses = message->addresses,
        .count = message->n_addresses,
        .function = message->function,
        .wait_ms = message->wait_ms,
    };
    return SONDE_OK;
}

/* ---- strings ---- */

struct texts {
    struct sonde_arena *arena;
    struct dictionary numbers; /* bounded by the answer */
    bool failed;               /* one could not be added */
};

static uint32_t add_text(struct texts *texts, const char *text) {
    const char *valid = rpc_text(texts->arena, text);
    bool is_new;
    uint32_t number = dictionary_add(&texts->numbers, valid, strlen(valid), &is_new);
    texts->failed |= number == DICTIONARY_NONE;
    return number;
}

/* ---- the parts ---- */

/* The messages of one type and the pointers to them, which protobuf-c needs. */
static bool allocate(struct sonde_arena *arena, size_t count, size_t size, void *pointers,
                     void *items) {
    *(void **)pointers = sonde_arena_alloc(arena, (count + 1) * sizeof(void *));
    *(void **)items = sonde_arena_alloc(arena, (count + 1) * size);
    return *(void **)pointers && *(void **)items;
}

static uint32_t plus_one(uint32_t index) {
    return index == ANNOTATE_NONE ? 0 : index + 1;
}

static bool set_functions(const struct annotate_answer *answer, struct texts *texts,
                          Sonde__V1__Code *message) {
    Sonde__V1__CodeFunction *items;
    if (!allocate(texts->arena, answer->function_count, sizeof *items, &message->functions, &items))
        return false;
    for (uint32_t i = 0; i < answer->function_count; i++) {
        const struct annotate_function *from = &answer->functions[i];
        sonde__v1__code_function__init(&items[i]);
        items[i].start = from->start;
        items[i].end = from->end;
        items[i].name = add_text(texts, from->name);
        items[i].system_name = add_text(texts, from->system_name);
        items[i].file = add_text(texts, from->file);
        items[i].line = from->line;
        items[i].is_part = from->is_part;
        message->functions[message->n_functions++] = &items[i];
    }
    return true;
}

static bool set_places(const struct annotate_answer *answer, struct texts *texts,
                       Sonde__V1__Code *message) {
    Sonde__V1__CodePlace *items;
    if (!allocate(texts->arena, answer->place_count, sizeof *items, &message->places, &items))
        return false;
    for (uint32_t i = 0; i < answer->place_count; i++) {
        const struct annotate_place *from = &answer->places[i];
        sonde__v1__code_place__init(&items[i]);
        items[i].parent = plus_one(from->parent);
        items[i].function = add_text(texts, from->function);
        items[i].file = add_text(texts, from->file);
        items[i].line = from->line;
        message->places[message->n_places++] = &items[i];
    }
    return true;
}

static bool set_addresses(const struct annotate_answer *answer, struct texts *texts,
                          Sonde__V1__Code *message) {
    Sonde__V1__CodeAddress *items;
    if (!allocate(texts->arena, answer->address_count, sizeof *items, &message->addresses, &items))
        return false;
    for (size_t i = 0; i < answer->address_count; i++) {
        const struct annotate_address *from = &answer->addresses[i];
        sonde__v1__code_address__init(&items[i]);
        items[i].address = from->vaddr;
        items[i].function = plus_one(from->function);
        items[i].place = plus_one(from->place);
        message->addresses[message->n_addresses++] = &items[i];
    }
    return true;
}

static bool set_instructions(const struct annotate_answer *answer, struct texts *texts,
                             Sonde__V1__Code *message) {
    Sonde__V1__CodeInstruction *items;
    if (!allocate(texts->arena, answer->instruction_count, sizeof *items, &message->instructions,
                  &items))
        return false;
    for (uint32_t i = 0; i < answer->instruction_count; i++) {
        const struct annotate_instruction *from = &answer->instructions[i];
        sonde__v1__code_instruction__init(&items[i]);
        items[i].address = from->vaddr;
        items[i].size = from->size;
        items[i].text = (char *)rpc_text(texts->arena, from->text);
        items[i].kind = (Sonde__V1__CodeInstruction__Kind)from->kind;
        items[i].target = from->target;
        items[i].target_name = add_text(texts, from->target_name);
        items[i].target_offset = from->target_offset;
        items[i].place = plus_one(from->place);
        items[i].is_after_gap = from->is_after_gap;
        message->instructions[message->n_instructions++] = &items[i];
    }
    return true;
}

static bool keep_strings(struct texts *texts, Sonde__V1__Code *message) {
    const struct dictionary *numbers = &texts->numbers;
    message->strings = sonde_arena_alloc(texts->arena, (numbers->count + 1) * sizeof(char *));
    if (!message->strings || texts->failed)
        return false;
    for (uint32_t i = 0; i < numbers->count; i++) {
        char *copy = sonde_arena_dup(texts->arena, numbers->items[i].bytes, numbers->items[i].len);
        if (!copy)
            return false;
        message->strings[message->n_strings++] = copy;
    }
    return true;
}

sonde_err code_message_from(const struct annotate_answer *answer, struct sonde_arena *arena,
                            Sonde__V1__Code *message) {
    struct texts texts = {.arena = arena};
    dictionary_init(&texts.numbers, SIZE_MAX);
    sonde__v1__code__init(message);
    message->path = (char *)rpc_text(arena, answer->path);
    message->build_id = (char *)answer->build_id;
    message->modified_unix_ns = answer->modified_unix_ns;
    message->is_cut = answer->is_cut;
    message->without_code = (char *)rpc_text(arena, answer->without_code);
    message->without_lines = (char *)answer->without_lines;
    bool good = add_text(&texts, "") == 0 && set_functions(answer, &texts, message) &&
                set_places(answer, &texts, message) && set_addresses(answer, &texts, message) &&
                set_instructions(answer, &texts, message) && keep_strings(&texts, message);
    dictionary_finish(&texts.numbers);
    return good ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
