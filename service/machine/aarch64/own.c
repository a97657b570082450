/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/own.h"

#include "service/machine/aarch64/relocations.h"

#include <elf.h>

const uint16_t machine_own = EM_AARCH64;
const struct machine_relocations *const machine_own_relocations = &aarch64_relocations;
