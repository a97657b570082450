/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with all kinds of frames that compilers and libc make, to be interrupted at any
 * instruction: no frame, big frames, alloca, realigned stacks, callbacks from libc, vector code,
 * PLT stubs, tail calls. */
#ifndef SONDE_TESTS_UNIT_UNWIND_WORK_H
#define SONDE_TESTS_UNIT_UNWIND_WORK_H

/* Runs everything once. The result depends on n, so that nothing is optimised away. */
unsigned long work_round(unsigned n);
/* The same without formatted output, for single-stepping. */
unsigned long work_short(unsigned n);
/* Calls `bottom` at the end of a recursion through different kinds of frames. */
unsigned long work_deep(unsigned depth, void (*bottom)(void));

#endif
