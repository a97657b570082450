/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/own.h"

#include "service/machine/x86_64/relocations.h"

#include <elf.h>

const uint16_t machine_own = EM_X86_64;
const struct machine_relocations *const machine_own_relocations = &x86_64_relocations;
