/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of relocations of words that hold the address of an imported symbol. */
#ifndef SONDE_SERVICE_MACHINE_RELOCATIONS_H
#define SONDE_SERVICE_MACHINE_RELOCATIONS_H

#include <stdint.h>

struct machine_relocations {
    uint32_t jump_slot; /* a slot of the linkage table */
    uint32_t glob_dat;  /* a word of the global offset table */
    uint32_t absolute;  /* a word of data */
};

#endif
