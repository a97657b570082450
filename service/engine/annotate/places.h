/* SPDX-License-Identifier: Apache-2.0
 *
 * Interns the chains of inlined calls as places (annotate.h). One thread. */
#ifndef SONDE_SERVICE_ENGINE_ANNOTATE_PLACES_H
#define SONDE_SERVICE_ENGINE_ANNOTATE_PLACES_H

#include "api/hash_index.h"
#include "service/engine/annotate/annotate.h"
#include "service/symbol/symbol.h"

struct places {
    struct annotate_answer *answer; /* has the array */
    struct hash_index index;
};

void places_init(struct places *places, struct annotate_answer *answer);
void places_finish(struct places *places);
/* Sets *place to that of the innermost frame; ANNOTATE_NONE if nothing is known. The strings stay
 * the symbol_answer's. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err places_add(struct places *places, const struct symbol_answer *answer,
                                    uint32_t *place);

#endif
