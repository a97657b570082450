/* SPDX-License-Identifier: Apache-2.0
 *
 * libunwind's walk of a copied stack. Only the confined process that checks unwinding calls this:
 * libunwind trusts the files it reads. Thread safety: one thread. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_OTHER_WALK_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_OTHER_WALK_H

#include "service/engine/unwind_check/check_format.h"

struct other_walker;

/* The modules stay valid until the walker is destroyed; the file of module n is the open descriptor
 * CHECK_FIRST_FILE + n. libunwind must be loaded (other_library.h). NULL when out of memory. */
struct other_walker *other_walker_create(const struct check_module *modules, uint32_t count);
void other_walker_destroy(struct other_walker *walker);
/* Writes at most CHECK_MAX_FRAMES pcs, leaf first, and returns their number. */
uint32_t other_walk(struct other_walker *walker, const struct check_stack *stack,
                    const uint8_t *bytes, uint64_t *pcs, enum check_end *end);
/* Describes the step from frame `at` to its caller, for example "CFA=rsp+16 rbp=c-16 ra=c-8". */
void other_walk_row(struct other_walker *walker, const struct check_stack *stack,
                    const uint8_t *bytes, uint32_t at, char row[CHECK_ROW_BYTES]);

#endif
