/* SPDX-License-Identifier: Apache-2.0
 *
 * The executable mappings of this process with their tables, as a walk_map: what guest and sonded
 * do together. */
#ifndef SONDE_TESTS_UNIT_UNWIND_MODULES_H
#define SONDE_TESTS_UNIT_UNWIND_MODULES_H

#include "api/bytes.h"
#include "service/guest/signal/walk.h"

#define MODULES_MAX 256

struct modules {
    struct walk_map map;
    struct walk_module modules[MODULES_MAX];
    struct sonde_buf images[MODULES_MAX];
    char names[MODULES_MAX][160];
    struct walk_stack stack; /* of the main thread */
};

void modules_init(struct modules *modules);
void modules_finish(struct modules *modules);
/* runtime address - ELF vaddr of a mapping of the file behind fd; 0 if no code of the file fits. */
uint64_t modules_bias(int fd, uint64_t start, uint64_t offset);
/* The rule that an image has at an ELF vaddr. */
const struct unwind_rule *modules_rule(const struct sonde_buf *image, uint64_t vaddr);

#endif
