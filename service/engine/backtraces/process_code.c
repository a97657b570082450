/* SPDX-License-Identifier: Apache-2.0
 *
 * The code and memory that a stack walk needs: the process's mappings as /proc shows them now, the
 * unwind table of a mapping from its first frame on, and the words of the current stack. */
#include "service/engine/backtraces/backtraces_request.h"
#include "service/engine/symbolize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define RED_ZONE   128u
#define FIRST_READ 8192u

sonde_err backtraces_code_init(struct backtraces_code *code, struct engine *engine, pid_t pid) {
    *code = (struct backtraces_code){.engine = engine, .pid = pid};
    code->generation = symbolize_read_maps(pid, NULL);
    if (!code->generation)
        return SONDE_NOT_AVAILABLE;
    code->places = calloc(code->generation->count + 1, sizeof *code->places);
    code->stack = malloc(BACKTRACES_STACK);
    if (!code->places || !code->stack)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < code->generation->count; i++)
        code->places[i].mapping = code->generation->mappings[i];
    return SONDE_OK;
}

void backtraces_code_finish(struct backtraces_code *code) {
    for (uint32_t i = 0; code->places && i < code->generation->count; i++)
        if (code->places[i].image)
            munmap((void *)code->places[i].image, code->places[i].bytes);
    free(code->places);
    free(code->stack);
    generation_destroy(code->generation);
    *code = (struct backtraces_code){0};
}

static bool holds(const struct backtraces_place *place, uint64_t pc) {
    return pc >= place->mapping->start && pc < place->mapping->end;
}

struct backtraces_place *backtraces_code_at(struct backtraces_code *code, uint64_t pc) {
    uint32_t low = 0, high = code->generation->count;
    if (high > 0 && holds(&code->places[code->last], pc))
        return &code->places[code->last];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (code->places[middle].mapping->start <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !holds(&code->places[low - 1], pc))
        return NULL;
    code->last = low - 1;
    return &code->places[code->last];
}

/* Opens the file and maps its unwind table. Code without one is unwound by frame pointers. */
static void open_place(struct backtraces_code *code, struct backtraces_place *place) {
    int memfd = -1;
    place->is_open = true;
    tables_open_mapping(code->engine, code->pid, place->mapping);
    const struct symbol_module *module = mapping_module(place->mapping);
    if (!module || !place->mapping->has_bias ||
        tables_get(code->engine, module, &memfd, &place->bytes) != SONDE_OK)
        return;
    void *image = mmap(NULL, place->bytes, PROT_READ, MAP_SHARED, memfd, 0);
    place->image = image == MAP_FAILED ? NULL : image;
    close(memfd);
}

static bool find(void *context, uint64_t pc, struct unwind_code *found) {
    struct backtraces_place *place = backtraces_code_at(context, pc);
    if (!place)
        return false;
    if (!place->is_open)
        open_place(context, place);
    *found = (struct unwind_code){place->image, place->mapping->bias};
    return true;
}

static size_t read_memory(pid_t pid, uint64_t address, void *bytes, size_t len) {
    struct iovec local = {bytes, len}, remote = {(void *)address, len};
    ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

void backtraces_code_live(struct backtraces_code *code, uint64_t sp) {
    code->stack_at = sp > RED_ZONE ? sp - RED_ZONE : 0;
    code->stack_bytes = 0;
    code->is_live = true;
}

/* Doubles the copied part of the stack until it contains `offset`. */
static bool extend(struct backtraces_code *code, uint64_t offset) {
    while (code->stack_bytes < offset + 8) {
        size_t want = code->stack_bytes ? code->stack_bytes : FIRST_READ;
        if (want > BACKTRACES_STACK - code->stack_bytes)
            want = BACKTRACES_STACK - code->stack_bytes;
        size_t got = read_memory(code->pid, code->stack_at + code->stack_bytes,
                                 code->stack + code->stack_bytes, want);
        code->stack_bytes += got;
        if (got == 0)
            return false;
    }
    return true;
}

/* Reads the stack from its copy, and anything else (another stack, the code before a return
 * address) from the live process. */
static bool read_word(void *context, uint64_t address, uint64_t *word) {
    struct backtraces_code *code = context;
    uint64_t offset = address - code->stack_at;
    if (offset > BACKTRACES_STACK - 8)
        return read_memory(code->pid, address, word, sizeof *word) == sizeof *word;
    if (offset + 8 > code->stack_bytes && (!code->is_live || !extend(code, offset)))
        return false;
    memcpy(word, code->stack + offset, sizeof *word);
    return true;
}

struct unwind_remote backtraces_code_remote(struct backtraces_code *code) {
    return (struct unwind_remote){code, find, read_word};
}
