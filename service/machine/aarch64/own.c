/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/own.h"

#include <elf.h>

const uint16_t machine_own = EM_AARCH64;
