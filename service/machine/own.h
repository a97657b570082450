/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that this program runs on: Bazel links the file of one folder. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_H
#define SONDE_SERVICE_MACHINE_OWN_H

#include "service/machine/relocations.h"

extern const uint16_t machine_own; /* EM_* */
extern const struct machine_relocations *const machine_own_relocations;

#endif
