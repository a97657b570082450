/* SPDX-License-Identifier: Apache-2.0
 *
 *     bazel run //tests/unit/unwind:replay -- FILE
 *
 * Walks a stack that `sonde doctor --save-stack FILE` has saved, with the code of this tree, and
 * prints its frames with their rules. Exits with 1 if the walk differs from the saved one: after a
 * change that mends the walk, that is what you want to see. Breakpoints in unwind_copy_walk show
 * each step. A module whose table was too large to save is compiled from its file, if this machine
 * has it. */
#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/unwind_check/check_text.h"
#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_lookup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE (64 << 20)

struct replay {
    Sonde__V1__SavedStack *stack;
    struct sonde_buf *tables; /* per module */
};

static void read_file(const char *path, struct sonde_buf *bytes) {
    char block[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (fd >= 0 && bytes->len < MAX_FILE && (got = read(fd, block, sizeof block)) > 0)
        sonde_buf_append(bytes, block, (size_t)got);
    if (fd >= 0)
        close(fd);
}

/* The saved table if it is a good one, or one that is compiled from the file. */
static void load_table(const Sonde__V1__SavedModule *module, struct sonde_buf *table) {
    sonde_buf_append(table, module->table.data, module->table.len);
    if (table->len && !unwind_table_check(table->data, table->len))
        return;
    sonde_buf_finish(table);
    int fd = open(module->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (unwind_table_build(fd, table, NULL) != SONDE_OK)
        sonde_buf_finish(table);
    close(fd);
}

static const Sonde__V1__SavedModule *module_at(const struct replay *replay, uint64_t pc,
                                               size_t *number) {
    for (*number = 0; *number < replay->stack->n_modules; ++*number) {
        const Sonde__V1__SavedModule *module = replay->stack->modules[*number];
        if (pc >= module->start && pc < module->end)
            return module;
    }
    return NULL;
}

static enum unwind_found find(void *context, uint64_t pc, struct unwind_range *range) {
    const struct replay *replay = context;
    size_t number;
    const Sonde__V1__SavedModule *module = module_at(replay, pc, &number);
    if (!module)
        return UNWIND_NOT_CODE;
    const struct sonde_buf *table = &replay->tables[number];
    *range = (struct unwind_range){module->start, module->end, table->len ? table->data : NULL,
                                   module->bias};
    return UNWIND_FOUND;
}

static void print_frame(const struct replay *replay, uint64_t pc, bool is_exact) {
    char rule[160];
    size_t number;
    const Sonde__V1__SavedModule *module = module_at(replay, pc - !is_exact, &number);
    printf("  0x%" PRIx64, pc);
    if (module) {
        const char *slash = strrchr(module->path, '/');
        printf(" %s+0x%" PRIx64 " ", slash ? slash + 1 : module->path, pc - module->bias);
        const struct sonde_buf *table = &replay->tables[number];
        uint64_t vaddr = pc - !is_exact - module->bias;
        check_rule_text(table->len ? unwind_table_rule(table->data, vaddr) : NULL, rule,
                        sizeof rule);
        fputs(rule, stdout);
    }
    putchar('\n');
}

/* Whether the walk equals the saved one. */
static bool walk(struct replay *replay) {
    static uint64_t pcs[UNWIND_COPY_FRAMES];
    const Sonde__V1__SavedStack *stack = replay->stack;
    struct unwind_copy copy = {.registers.known = UNWIND_ALL_KNOWN,
                               .stack = stack->stack.data,
                               .stack_bytes = stack->stack.len};
    struct unwind_copy_walk made = {.pcs = pcs, .capacity = UNWIND_COPY_FRAMES};
    const struct unwind_code_map map = {replay, find, 1};
    struct unwind_walker *walker = unwind_walker_create();
    memcpy(copy.registers.value, stack->registers, sizeof copy.registers.value);
    unwind_copy_walk(walker, &map, &copy, &made);
    unwind_walker_destroy(walker);
    bool is_equal = made.count == stack->n_pcs;
    for (uint32_t i = 0; i < made.count; i++) {
        uint64_t pc = pcs[i] & ~UNWIND_COPY_EXACT;
        print_frame(replay, pc, pcs[i] & UNWIND_COPY_EXACT);
        is_equal = is_equal && pc == stack->pcs[i];
    }
    printf("end: %s\nsaved: %zu frames, %s\n%s\n", check_end_text(made.end), stack->n_pcs,
           stack->end, is_equal ? "the walks are equal" : "the walks differ");
    return is_equal;
}

int main(int argc, char **argv) {
    struct sonde_buf bytes = {0};
    struct replay replay = {0};
    if (argc != 2)
        return fputs("usage: replay FILE\n", stderr), 2;
    read_file(argv[1], &bytes);
    replay.stack = sonde__v1__saved_stack__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    if (!replay.stack || replay.stack->n_registers != UNWIND_REGISTERS)
        return fprintf(stderr, "%s is not a saved stack\n", argv[1]), 2;
    replay.tables = calloc(replay.stack->n_modules + 1, sizeof *replay.tables);
    for (size_t i = 0; i < replay.stack->n_modules; i++)
        load_table(replay.stack->modules[i], &replay.tables[i]);
    bool is_equal = walk(&replay);
    for (size_t i = 0; i < replay.stack->n_modules; i++)
        sonde_buf_finish(&replay.tables[i]);
    free(replay.tables);
    sonde__v1__saved_stack__free_unpacked(replay.stack, NULL);
    sonde_buf_finish(&bytes);
    return is_equal ? 0 : 1;
}
