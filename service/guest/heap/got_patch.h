/* SPDX-License-Identifier: Apache-2.0
 *
 * Import patching: in every loaded object the words by which it calls malloc and its family (slots
 * of its procedure linkage, other words of its global offset table, pointers in its data) are made
 * to point to our stand-ins, and back. So nothing is paid while nobody samples, and no symbol of
 * ours stands in front of an allocator's.
 *
 * Which functions: those that the object which the name `malloc` is bound to has itself. An
 * operator new elsewhere calls that malloc by an import, and would be counted twice. Which words:
 * those that hold the real function, or wait to be bound to it. Nothing is remembered: a word that
 * points to a stand-in gets the real function back, whatever came and went in between.
 *
 * Not caught: calls inside an allocator that is linked into the program, pointers to free that a
 * program took before, libraries until the next look (patch_tick). Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_GOT_PATCH_H
#define SONDE_SERVICE_GUEST_HEAP_GOT_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define PATCH_NAME 48u

enum patch_refusal {
    PATCH_POSSIBLE,
    PATCH_NO_MALLOC,  /* nothing is bound to the name */
    PATCH_IN_PROGRAM, /* malloc is the program's own: its calls go through no import */
};

struct patch_facts {
    enum patch_refusal refusal;
    char allocator[PATCH_NAME]; /* file name of the object that has malloc */
    uint32_t objects, words;    /* that were patched at the last pass */
    uint32_t program_words;     /* of the program itself */
    int os_error;               /* the first word that could not be written; 0 = none */
};

/* Looks who has malloc, once. */
const struct patch_facts *patch_find(void);
/* Puts the stand-ins in place, or the real functions back. False: libraries came meanwhile and were
 * left out, ask again. */
bool patch_pass(bool in_place);
/* Whether libraries came or went since the last pass. */
bool patch_is_stale(void);

#pragma GCC visibility pop

#endif
