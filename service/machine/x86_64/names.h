/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the registers that rules have. Each machine has this header, and Bazel chooses one
 * as service/machine/own/names.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_NAMES_H
#define SONDE_SERVICE_MACHINE_OWN_NAMES_H

#include "service/machine/own/registers.h"

#define NAMES_SP "rsp"
#define NAMES_FP "rbp"

/* What functions save for their callers. */
static const struct {
    uint8_t number;
    const char *name;
} names_saved[] = {
    {UNWIND_REG_FP, "rbp"},      {UNWIND_REG_RBX, "rbx"},     {UNWIND_REG_R12, "r12"},
    {UNWIND_REG_R12 + 1, "r13"}, {UNWIND_REG_R12 + 2, "r14"}, {UNWIND_REG_R12 + 3, "r15"},
};

#endif
