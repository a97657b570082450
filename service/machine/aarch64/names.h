/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the registers that rules have. Each machine has this header, and Bazel chooses one
 * as service/machine/own/names.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_NAMES_H
#define SONDE_SERVICE_MACHINE_OWN_NAMES_H

#include "service/machine/own/registers.h"

#define NAMES_SP "sp"
#define NAMES_FP "x29"

/* What functions save for their callers. */
static const struct {
    uint8_t number;
    const char *name;
} names_saved[] = {
    {19, "x19"}, {20, "x20"}, {21, "x21"}, {22, "x22"}, {23, "x23"}, {24, "x24"},
    {25, "x25"}, {26, "x26"}, {27, "x27"}, {28, "x28"}, {29, "x29"}, {30, "x30"},
};

#endif
