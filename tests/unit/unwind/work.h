/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with every kind of frame that compilers and libc make, to be interrupted at any
 * instruction: no frame at all, big frames, alloca, realigned stacks, callbacks through libc,
 * vector code, PLT stubs, tail calls. */
#ifndef SONDE_TESTS_UNIT_UNWIND_WORK_H
#define SONDE_TESTS_UNIT_UNWIND_WORK_H

/* One round of everything; depends on n so that nothing can be left out. */
unsigned long work_round(unsigned n);
/* The same without libc's formatted output: for single steps. */
unsigned long work_short(unsigned n);
/* Calls `bottom` at the end of a mixed recursion that deep. */
unsigned long work_deep(unsigned depth, void (*bottom)(void));

#endif
