/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the demo that must appear in every stack that passes through them. Any thread. */
#ifndef SONDE_CLIENTS_DEMO_FRAME_H
#define SONDE_CLIENTS_DEMO_FRAME_H

/* Before the end of a function: keeps the compiler from turning its last call into a jump. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")
/* At a declaration: the function is neither inlined nor merged with an equal one. */
#define OWN_FRAME __attribute__((noinline, noclone))

#endif
