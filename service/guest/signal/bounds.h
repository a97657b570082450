/* SPDX-License-Identifier: Apache-2.0
 *
 * Which memory a walk may read. No SIGSEGV handler of ours stands behind it: an application's crash
 * handler is the last thing a guest should meddle with. Instead every stack is known before it is
 * read:
 *
 *   - the thread's own: told by the thread as it started, or the mapping (of the last
 *     /proc/self/maps) that holds its thread descriptor, which glibc puts at the stack's top; the
 *     main thread's ends where the kernel put the program's file name;
 *   - the alternate signal stack: by the kernel, in the ucontext (walk.h looks there itself);
 *   - coroutines': by sonde_stack_add;
 *   - any other: asked of the kernel page by page, at most 16, by a sigprocmask that can only fail:
 *     EINVAL when the page can be read, EFAULT when not. About 0.1 us a page, and only for such
 *     stacks.
 *
 * Thread and signal safety: signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_BOUNDS_H
#define SONDE_SERVICE_GUEST_SIGNAL_BOUNDS_H

#include "service/guest/signal/handler_state.h"

#pragma GCC visibility push(hidden)

#define BOUNDS_PAGES     16u
#define BOUNDS_OWN_PAGES 256u /* asked for at once, of a thread's own stack */

/* Fills bounds for an interruption; *extra is the place of its one extra stack. May learn
 * thread->stack. */
SONDE_SIGSAFE
void bounds_find(struct sampled_thread *thread, const ucontext_t *context, struct walk_stack *extra,
                 struct walk_bounds *bounds);

/* The same for an ordinary call, whose stack pointer is sp. *own is the thread's to keep between
 * its calls, zeroed at first: it grows as far down as the thread was seen. Nothing here depends on
 * when /proc/self/maps was read: a thread's stack holds what lies between its stack pointer and its
 * descriptor, once each page of it was found readable. */
SONDE_SIGSAFE
void bounds_find_call(uint64_t sp, struct walk_stack *own, struct walk_stack *extra,
                      struct walk_bounds *bounds);

/* How far memory can be read from address on: the end of the last readable page, at most `limit`,
 * at most BOUNDS_PAGES on; address when its own page cannot be read. */
SONDE_SIGSAFE
uint64_t bounds_probe(uint64_t address, uint64_t limit);

#pragma GCC visibility pop

#endif
