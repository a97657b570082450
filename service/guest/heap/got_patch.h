/* SPDX-License-Identifier: Apache-2.0
 *
 * Patches the imports of malloc and its family in every loaded object: the words that hold their
 * addresses (PLT slots, other GOT entries, pointers in data) are set to the wrappers
 * (malloc_wrappers.h), and back. So sampling costs nothing while it is off, and no exported symbol
 * of ours gets in front of an allocator's.
 *
 * Functions: those defined by the object that the name `malloc` is bound to. An operator new in
 * another object calls that malloc through an import, so replacing it too would count twice. Words:
 * those that hold the real function, or are not bound yet. Nothing is remembered: restoring sets
 * every word that holds a wrapper back to the real function, whatever was loaded in between.
 *
 * Not caught: calls inside an allocator that is linked into the program, pointers to free that the
 * program took earlier, and libraries until the next pass (sampler_control_tick). Control thread
 * only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_GOT_PATCH_H
#define SONDE_SERVICE_GUEST_HEAP_GOT_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define GOT_PATCH_NAME_BYTES 48u

enum got_patch_refusal {
    GOT_PATCH_POSSIBLE,
    GOT_PATCH_NO_MALLOC,  /* no loaded object defines malloc */
    GOT_PATCH_IN_PROGRAM, /* the program defines malloc: its own calls use no import */
};

struct got_patch_info {
    enum got_patch_refusal refusal;
    char allocator[GOT_PATCH_NAME_BYTES]; /* file name of the object that defines malloc */
    uint32_t objects, words;              /* changed by the last pass */
    uint32_t program_imports; /* of malloc's family, patched or reached by operator new */
    int os_error;             /* of the first word that could not be changed; 0 = none */
};

/* Looks for malloc at the first call. The result is static; got_patch_apply updates it. */
const struct got_patch_info *got_patch_find(void);
/* Whether the object that defines malloc contains this function. */
bool got_patch_defines_malloc(const void *function);
/* Installs the wrappers, or restores the real functions. Returns false if some libraries were being
 * loaded and were left out, so call again. */
bool got_patch_apply(bool install);
/* Whether libraries were loaded or unloaded since the last pass. */
bool got_patch_is_stale(void);

#pragma GCC visibility pop

#endif
