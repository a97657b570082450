/* SPDX-License-Identifier: Apache-2.0
 *
 * Which memory a walk may read. The guest does not handle SIGSEGV, because that would interfere
 * with the application's crash handler. Instead, every stack is known before it is read:
 *
 *   - the thread's own stack: its bounds were noted when the thread started, or it is the mapping
 *     (as of the last reading of /proc/self/maps) that holds the thread's descriptor, which glibc
 *     puts at the top of the stack. The main stack ends with the program's file name;
 *   - the alternate signal stack: the kernel gives it in the ucontext, and walk.h uses it;
 *   - stacks of coroutines: registered by sonde_stack_add;
 *   - any other: the kernel is asked page by page, at most 16 pages, by a sigprocmask that always
 *     fails: with EINVAL if the page can be read, with EFAULT if not. That costs 0.1 us per page.
 *
 * All functions are for the calling thread's own stack. Any thread; signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_BOUNDS_H
#define SONDE_SERVICE_GUEST_SIGNAL_BOUNDS_H

#include "service/guest/signal/handler_state.h"

#pragma GCC visibility push(hidden)

#define BOUNDS_PAGES     16u  /* asked for beyond known stacks */
#define BOUNDS_OWN_PAGES 256u /* asked for at once in the thread's own stack */

/* Fills *bounds for an interrupted thread, and *extra, which *bounds points to. May set
 * thread->stack. */
SONDE_SIGSAFE
void bounds_find(struct sampled_thread *thread, const ucontext_t *context, struct walk_stack *extra,
                 struct walk_bounds *bounds);

/* The same for an ordinary call whose stack pointer is sp. *own belongs to the calling thread,
 * which keeps it between calls; zeroed memory is a valid start. It grows downwards with the deepest
 * sp. It does not depend on /proc/self/maps: the memory between sp and the thread's descriptor is
 * the stack if each of its pages can be read. */
SONDE_SIGSAFE
void bounds_find_call(uint64_t sp, struct walk_stack *own, struct walk_stack *extra,
                      struct walk_bounds *bounds);

/* The end of the readable memory that begins at address: at most `limit`, at most BOUNDS_PAGES
 * pages. Returns address when its own page cannot be read. */
SONDE_SIGSAFE
uint64_t bounds_probe(uint64_t address, uint64_t limit);

#pragma GCC visibility pop

#endif
