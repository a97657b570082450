/* SPDX-License-Identifier: Apache-2.0
 *
 * The code and memory that a stack walk needs: the process's mappings as /proc shows them now, the
 * unwind table of a mapping from its first frame on, and the words of the current stack. */
#include "service/engine/code/process_code.h"
#include "service/engine/code/tables.h"
#include "service/process/foreign_memory.h"

#include "api/os/shared_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RED_ZONE   128u
#define FIRST_READ 8192u

sonde_err process_code_init(struct process_code *code, struct engine *engine,
                            const struct process_identity *process) {
    *code = (struct process_code){.engine = engine, .process = process};
    code->generation = tables_read_maps(process, NULL);
    if (!code->generation)
        return SONDE_NOT_AVAILABLE;
    code->regions = calloc(code->generation->count + 1, sizeof *code->regions);
    code->stack = malloc(PROCESS_CODE_STACK);
    if (!code->regions || !code->stack)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < code->generation->count; i++)
        code->regions[i].mapping = code->generation->mappings[i];
    return SONDE_OK;
}

void process_code_finish(struct process_code *code) {
    for (uint32_t i = 0; code->regions && i < code->generation->count; i++)
        if (code->regions[i].image)
            munmap((void *)code->regions[i].image, code->regions[i].bytes);
    free(code->regions);
    free(code->stack);
    generation_destroy(code->generation);
    *code = (struct process_code){0};
}

static bool holds(const struct code_region *region, uint64_t pc) {
    return pc >= region->mapping->start && pc < region->mapping->end;
}

struct code_region *process_code_at(struct process_code *code, uint64_t pc) {
    uint32_t low = 0, high = code->generation->count;
    if (high > 0 && holds(&code->regions[code->last], pc))
        return &code->regions[code->last];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (code->regions[middle].mapping->start <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !holds(&code->regions[low - 1], pc))
        return NULL;
    code->last = low - 1;
    return &code->regions[code->last];
}

/* Opens the file and maps its unwind table. Code without one is unwound by frame pointers. */
static void open_region(struct process_code *code, struct code_region *region) {
    int memfd = -1;
    region->is_open = true;
    tables_open_mapping(code->engine, code->process, region->mapping);
    const struct symbol_module *module = mapping_module(region->mapping);
    if (!module || !region->mapping->has_bias)
        return;
    struct sonde_diag diag = {0};
    sonde_err err = tables_get(code->engine, module, &memfd, &region->bytes, &diag);
    if (!err && !(region->image = shared_memory_map(memfd, region->bytes)))
        err = sonde_fail_os(&diag, errno, "cannot map an unwind table");
    mapping_set_problem(region->mapping, err, &diag);
    if (memfd >= 0)
        close(memfd);
}

static bool find(void *context, uint64_t pc, struct unwind_code *found) {
    struct code_region *region = process_code_at(context, pc);
    if (!region)
        return false;
    if (!region->is_open)
        open_region(context, region);
    *found = (struct unwind_code){region->image, region->mapping->bias};
    return true;
}

void process_code_live(struct process_code *code, uint64_t sp) {
    code->stack_at = sp > RED_ZONE ? sp - RED_ZONE : 0;
    code->stack_bytes = 0;
    code->is_live = true;
}

/* Doubles the copied part of the stack until it contains `offset`. */
static bool extend(struct process_code *code, uint64_t offset) {
    while (code->stack_bytes < offset + 8) {
        size_t want = code->stack_bytes ? code->stack_bytes : FIRST_READ;
        if (want > PROCESS_CODE_STACK - code->stack_bytes)
            want = PROCESS_CODE_STACK - code->stack_bytes;
        size_t got = foreign_memory_read(code->process->pid, code->stack_at + code->stack_bytes,
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
    struct process_code *code = context;
    uint64_t offset = address - code->stack_at;
    if (offset > PROCESS_CODE_STACK - 8)
        return foreign_memory_read(code->process->pid, address, word, sizeof *word) == sizeof *word;
    if (offset + 8 > code->stack_bytes && (!code->is_live || !extend(code, offset)))
        return false;
    memcpy(word, code->stack + offset, sizeof *word);
    return true;
}

struct unwind_remote process_code_remote(struct process_code *code) {
    return (struct unwind_remote){code, find, read_word};
}
