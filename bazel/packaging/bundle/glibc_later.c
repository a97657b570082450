/* SPDX-License-Identifier: Apache-2.0
 *
 * The two functions of glibc 2.35 and 2.36 that Debian 12's libgcc_s and libstdc++ use, for a
 * distribution with glibc 2.34 (RHEL 9). bundle.py makes these two libraries ask for them without a
 * version. Every program names libc before this library, so a glibc that has them comes first. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct search {
    uintptr_t pc;
    struct dl_find_object *found;
};

#define EXPORTED __attribute__((visibility("default")))

EXPORTED uint32_t arc4random(void) {
    uint32_t bits;
    while (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        usleep(1000); /* a signal, or a sandbox; the caller cannot handle an error */
    return bits;
}

static int on_object(struct dl_phdr_info *object, size_t size, void *context) {
    struct search *search = context;
    struct dl_find_object *found = search->found;
    int is_inside = 0;
    found->dlfo_eh_frame = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && search->pc - start < header->p_memsz) {
            is_inside = 1;
            found->dlfo_map_start = (void *)start;
            found->dlfo_map_end = (void *)(start + header->p_memsz);
        }
        if (header->p_type == PT_GNU_EH_FRAME)
            found->dlfo_eh_frame = (void *)start;
    }
    return is_inside;
}

/* libgcc uses the answer's dlfo_eh_frame alone. As in glibc, an object without one is not found. */
EXPORTED int _dl_find_object(void *pc, struct dl_find_object *found) {
    struct search search = {(uintptr_t)pc, found};
    *found = (struct dl_find_object){0};
    return dl_iterate_phdr(on_object, &search) && found->dlfo_eh_frame ? 0 : -1;
}
