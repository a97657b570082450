/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates as most C++ programs do: of malloc's family it only imports operator new and delete.
 * With NEVER it does not even import these. */
#include <stddef.h>
#include <unistd.h>

void *_Znwm(size_t size);
void _ZdlPv(void *block);

int main(void) {
    char letter;
    do {
#ifndef NEVER
        _ZdlPv(_Znwm(1000));
#endif
    } while (read(0, &letter, 1) > 0);
    return 0;
}
