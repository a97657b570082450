/* SPDX-License-Identifier: Apache-2.0
 *
 * From a pointer to a member to the struct that embeds it:
 *
 *     struct job *job = container_of(message, struct job, message);
 *
 * A pointer that is not of the member's type does not compile. */
#ifndef SONDE_API_BASE_CONTAINER_OF_H
#define SONDE_API_BASE_CONTAINER_OF_H

#include <stddef.h>

#define container_of(pointer, type, member)                                    \
    ((type *)(void *)((char *)(1 ? (pointer) : &((type *)(void *)0)->member) - \
                      offsetof(type, member)))

#endif
