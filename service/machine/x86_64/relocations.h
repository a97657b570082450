/* SPDX-License-Identifier: Apache-2.0
 *
 * The one list of this machine's relocations, for files and for this program. */
#ifndef SONDE_SERVICE_MACHINE_X86_64_RELOCATIONS_H
#define SONDE_SERVICE_MACHINE_X86_64_RELOCATIONS_H

#include "service/machine/relocations.h"

#include <elf.h>

static const struct machine_relocations x86_64_relocations = {
    .jump_slot = R_X86_64_JUMP_SLOT,
    .glob_dat = R_X86_64_GLOB_DAT,
    .absolute = R_X86_64_64,
};

#endif
