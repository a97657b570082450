/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine's check: three stacks, of which one differs. */
#include "service/engine/unwind_check/unwind_check.h"
#include "tests/unit/rpc/fake_engine.h"

#include <stdlib.h>

struct check_work {
    struct engine_work work;
    engine_on_unwind_check *on_answer;
    void *context;
    bool save_stack;
};

static void answer(struct engine_work *base) {
    struct check_work *work = (struct check_work *)base;
    static const struct engine_unwind_difference difference = {
        .stacks = 1,
        .pc = 0x1010,
        .function = "odd\xff",
        .module = "demo",
        .module_offset = 0x10,
        .other = 0x2020,
        .our_end = "root",
        .rule = "cfa=rsp+8",
        .row = "CFA=rsp+16 ra=c-8",
    };
    struct engine_unwind_check check = {.target_name = "demo",
                                        .stacks = 3,
                                        .frames = 30,
                                        .equal_stacks = 2,
                                        .equal_frames = 25,
                                        .reached_root = 3,
                                        .other_reached_root = 2,
                                        .differences = &difference,
                                        .difference_count = 1,
                                        .note = ""};
    static const uint64_t registers[17] = {[16] = 0x1010}, pcs[] = {0x1010, 0x2020};
    static const struct engine_saved_module module = {.start = 0x1000,
                                                      .end = 0x2000,
                                                      .path = "/bin/demo",
                                                      .build_id = "ab",
                                                      .table = "table",
                                                      .table_bytes = 5};
    static const struct engine_saved_stack saved = {.end = "the end",
                                                    .registers = registers,
                                                    .register_count = 17,
                                                    .pcs = pcs,
                                                    .count = 2,
                                                    .stack = (const uint8_t *)"memory",
                                                    .stack_bytes = 6,
                                                    .modules = &module,
                                                    .module_count = 1};
    check.saved = work->save_stack ? &saved : NULL;
    work->on_answer(work->context, SONDE_OK, NULL, &check);
    free(work);
}

sonde_err engine_check_unwind(struct engine *engine, const struct engine_unwind_check_spec *spec,
                              engine_on_unwind_check *on_answer, void *context,
                              struct sonde_diag *diag) {
    struct engine_target target;
    sonde_err err = engine_find(engine, &spec->target, &target, diag);
    struct check_work *work = err ? NULL : calloc(1, sizeof *work);
    if (err || !work)
        return err ? err : SONDE_OUT_OF_MEMORY;
    *work = (struct check_work){{.run = answer}, on_answer, context, spec->save_stack};
    if (engine_submit(engine, &work->work))
        return SONDE_OK;
    free(work);
    return SONDE_UNAVAILABLE;
}
