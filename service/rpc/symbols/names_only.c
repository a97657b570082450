/* SPDX-License-Identifier: Apache-2.0
 *
 * Within one answer the engine mostly returns equal names as the same pointer. So names are
 * compared by their pointers, and none is read twice. */
#include "service/rpc/symbols/names_only.h"

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/base/dictionary.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/call.h"
#include "service/symbol/symbol.h"

#define LIMIT_BYTES ((size_t)1 << 30) /* from pointers to their numbers */

struct reply {
    struct sonde_arena arena;
    struct dictionary pointers;
    Sonde__V1__SymbolizeResponse message;
    bool name_allocators;
};

static size_t count_frames(const struct engine_symbol *symbols, size_t count) {
    size_t frames = 0;
    for (size_t i = 0; i < count; i++)
        frames += symbols[i].frame_count + (symbols[i].allocator_name != NULL);
    return frames;
}

/* Makes room for one name per frame. */
static bool make_room(struct reply *reply, size_t count, size_t frames) {
    Sonde__V1__SymbolizeResponse *message = &reply->message;
    message->frame_counts = sonde_arena_alloc(&reply->arena, count * sizeof(uint32_t) + 1);
    message->frames = sonde_arena_alloc(&reply->arena, frames * sizeof(uint32_t) + 1);
    message->names = sonde_arena_alloc(&reply->arena, frames * sizeof(char *) + 1);
    return message->frame_counts && message->frames && message->names;
}

static bool add_frame(struct reply *reply, const char *name) {
    Sonde__V1__SymbolizeResponse *message = &reply->message;
    bool is_new;
    uint32_t number = dictionary_add(&reply->pointers, &name, sizeof name, &is_new);
    if (number == DICTIONARY_NONE)
        return false;
    if (is_new)
        message->names[message->n_names++] = (char *)rpc_text(&reply->arena, name);
    message->frames[message->n_frames++] = number;
    return true;
}

static bool add_symbol(struct reply *reply, const struct engine_symbol *symbol) {
    if (reply->name_allocators && symbol->allocator_name) {
        reply->message.frame_counts[reply->message.n_frame_counts++] = 1;
        return add_frame(reply, symbol->allocator_name);
    }
    reply->message.frame_counts[reply->message.n_frame_counts++] = symbol->frame_count;
    for (uint32_t i = 0; i < symbol->frame_count; i++)
        if (!add_frame(reply, symbol->frames[i].name))
            return false;
    return true;
}

sonde_err names_only_pack(const struct engine_symbol *symbols, size_t count, bool name_allocators,
                          grpc_slice *packed) {
    struct reply reply = {.message = SONDE__V1__SYMBOLIZE_RESPONSE__INIT,
                          .name_allocators = name_allocators};
    dictionary_init(&reply.pointers, LIMIT_BYTES);
    bool is_good = make_room(&reply, count, count_frames(symbols, count));
    for (size_t i = 0; i < count && is_good; i++)
        is_good = add_symbol(&reply, &symbols[i]);
    if (is_good)
        *packed = rpc_pack(&reply.message.base);
    dictionary_finish(&reply.pointers);
    sonde_arena_finish(&reply.arena);
    return is_good ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
