/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof files do not store frame kinds, so they are guessed from the mappings' names. Sonde writes
 * names from which the guess restores the kind: the executable first, the kernel as "[kernel]",
 * memory as in /proc/PID/maps. A file that is called like the executable is another version of it,
 * in another folder. The kind of a file that could not be opened is guessed from its path. */
#include "api/profile/kind.h"

#include <string.h>

static const struct {
    const char *start;
    enum sonde_frame_kind kind;
    bool is_memory; /* only without a build-id, because a library can be in a memfd */
} rows[] = {{"[kernel", SONDE_FRAME_KERNEL, false},   {"[guest.kernel", SONDE_FRAME_KERNEL, false},
            {"[vdso]", SONDE_FRAME_LIBRARY, false},   {"[vsyscall]", SONDE_FRAME_LIBRARY, false},
            {"[jit", SONDE_FRAME_JIT, true},          {"[anon", SONDE_FRAME_JIT, true},
            {"//anon", SONDE_FRAME_JIT, true},        {"[heap", SONDE_FRAME_JIT, true},
            {"[stack", SONDE_FRAME_JIT, true},        {"/memfd:", SONDE_FRAME_JIT, true},
            {"/dev/zero", SONDE_FRAME_JIT, true},     {"/SYSV", SONDE_FRAME_JIT, true},
            {"/anon_hugepage", SONDE_FRAME_JIT, true}};

/* "libc.so.6", "mod.so", "mod.so (deleted)" */
static bool is_shared_object(const char *path) {
    const char *slash = strrchr(path, '/'), *at = slash ? slash : path;
    while ((at = strstr(at, ".so")) != NULL) {
        at += 3;
        if (*at == 0 || *at == '.' || *at == ' ')
            return true;
    }
    return false;
}

static const char *name_of(const struct sonde_profile *profile, uint32_t mapping_id) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, mapping_id);
    const char *path = mapping ? sonde_profile_text(profile, mapping->filename) : "";
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_program(const struct sonde_profile *profile, uint32_t mapping_id) {
    return mapping_id == 1 || strcmp(name_of(profile, mapping_id), name_of(profile, 1)) == 0;
}

enum sonde_frame_kind sonde_profile_guess_kind(const struct sonde_profile *profile,
                                               uint32_t mapping_id, uint64_t address) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, mapping_id);
    if (!mapping)
        return address ? SONDE_FRAME_UNKNOWN : SONDE_FRAME_NOTE;
    const char *path = sonde_profile_text(profile, mapping->filename);
    bool has_build_id = sonde_profile_text(profile, mapping->build_id)[0] != 0;
    if (!path[0])
        return SONDE_FRAME_JIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(path, rows[i].start, strlen(rows[i].start)) == 0 &&
            !(rows[i].is_memory && has_build_id))
            return rows[i].kind;
    return is_program(profile, mapping_id) && !is_shared_object(path) ? SONDE_FRAME_APPLICATION
                                                                      : SONDE_FRAME_LIBRARY;
}
