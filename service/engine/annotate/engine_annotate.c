/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/annotate/annotate.h"
#include "service/engine/core/engine_state.h"
#include "service/symbol/files/files.h"

sonde_err engine_annotate(struct engine *engine, const char *build_id,
                          const struct annotate_request *request, struct annotate_answer *answer,
                          struct sonde_diag *diag) {
    struct symbol_module *module = NULL;
    *answer = (struct annotate_answer){.without_lines = ""};
    sonde_err err = symbol_module_find(engine->symbols, build_id, &module, diag);
    if (!err)
        err = annotate_module(engine->symbols, module, request, answer, diag);
    symbol_module_release(module);
    return err;
}
