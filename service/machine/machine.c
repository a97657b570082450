/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/machine.h"

const struct machine *machine_of(uint16_t elf_machine) {
    static const struct machine *const machines[] = {&machine_x86_64, &machine_aarch64};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i]->elf == elf_machine)
            return machines[i];
    return NULL;
}
