/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is loaded late, with one import of malloc of each kind. */
#include <stdlib.h>

void *late_malloc(size_t size);
void late_free(void *block);

void *(*late_pointer)(size_t) = malloc;

void *late_malloc(size_t size) {
    return malloc(size);
}

void late_free(void *block) {
    free(block);
}
