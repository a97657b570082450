/* SPDX-License-Identifier: Apache-2.0 */
#include "api/program_advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME       60 /* bytes shown of a name */
#define FIRST_WITH_X   12 /* Python 3.12 has -X perf */
#define MAX_DYNAMIC    64 /* entries of a dynamic section that are read */
#define FETCH_BY_SONDE "start sonded with --debuginfod https://debuginfod.debian.net"

/* Name, "is stripped; install ", detail, ...: the pieces around them. */
static const struct row {
    const char *before_detail, *after_detail; /* both follow the name; the second may be NULL */
} rows[PROGRAM_KINDS] = {
    [PROGRAM_NODE] = {": JavaScript functions have no names; start it with node --perf-basic-prof",
                      NULL},
    [PROGRAM_PYTHON] = {": Python functions have no names; start it with python3 -X perf, which "
                        "Python 3.12 and later have",
                        NULL},
    [PROGRAM_OLD_PYTHON] = {": Python functions have no names; only Python 3.12 and later can name "
                            "them, with -X perf",
                            NULL},
    [PROGRAM_JAVA] = {": Java methods have no names; run `jcmd PID Compiler.perfmap` (JDK 17 or "
                      "later) before the capture, and start it with -XX:+PreserveFramePointer",
                      NULL},
    [PROGRAM_PACKAGED] = {" is stripped; install ",
                          " from http://deb.debian.org/debian-debug, or " FETCH_BY_SONDE},
    [PROGRAM_PACKAGED_MAIN] = {" is stripped; install ", ", or " FETCH_BY_SONDE},
    [PROGRAM_STRIPPED] = {" is stripped; link it without -s, strip it with --strip-debug only, or "
                          "upload the unstripped file: sonde symbol --upload FILE",
                          NULL},
    [PROGRAM_UNREADABLE] = {" has damaged section headers, or too many, so its symbols cannot be "
                            "read; upload its debug file: sonde symbol --upload FILE",
                            NULL},
    [PROGRAM_STATIC_GO] = {" is a static Go program, so libsonde.so cannot be preloaded; sample "
                           "its CPU time from outside (sonde record PID), import net/http/pprof "
                           "for its heap, or link it with -linkmode=external",
                           NULL},
    [PROGRAM_STATIC] = {" is statically linked, so libsonde.so cannot be preloaded; sample its CPU "
                        "time from outside (sonde record PID), or link it dynamically",
                        NULL},
};

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

static enum program_kind kind_of_python(const char *version) {
    if (strncmp(version, "2", 1) == 0)
        return PROGRAM_OLD_PYTHON;
    char *end;
    long minor = strncmp(version, "3.", 2) == 0 ? strtol(version + 2, &end, 10) : FIRST_WITH_X;
    return minor < FIRST_WITH_X ? PROGRAM_OLD_PYTHON : PROGRAM_PYTHON;
}

enum program_kind program_kind_of_runtime(const char *executable) {
    static const char *const node[] = {"node", "nodejs", NULL}, *const java[] = {"java", NULL};
    static const char python[] = "python";
    if (is_one_of(executable, node))
        return PROGRAM_NODE;
    if (is_one_of(executable, java))
        return PROGRAM_JAVA;
    size_t len = sizeof python - 1, rest = strspn(executable, "pythond0123456789.");
    if (strncmp(executable, python, len) != 0 || executable[rest])
        return PROGRAM_OTHER;
    return kind_of_python(executable + len);
}

/* Of all programs without PT_INTERP, the dynamic linker is the one that has a name as a library. */
static bool is_dynamic_linker(const struct elf_file *elf) {
    Elf64_Dyn entries[MAX_DYNAMIC];
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        size_t count = segment->p_filesz / sizeof *entries;
        count = count < MAX_DYNAMIC ? count : MAX_DYNAMIC;
        if (segment->p_type != PT_DYNAMIC ||
            !elf_read(&elf->input, segment->p_offset, entries, count * sizeof *entries))
            continue;
        for (size_t at = 0; at < count && entries[at].d_tag != DT_NULL; at++)
            if (entries[at].d_tag == DT_SONAME)
                return true;
    }
    return false;
}

enum program_kind program_kind_of_elf(const struct elf_file *elf) {
    for (uint32_t i = 0; i < elf->segment_count; i++)
        if (elf->segments[i].p_type == PT_INTERP)
            return PROGRAM_OTHER;
    if (is_dynamic_linker(elf))
        return PROGRAM_OTHER;
    return elf_section(elf, ".go.buildinfo") ? PROGRAM_STATIC_GO : PROGRAM_STATIC;
}

void program_advice(enum program_kind kind, const char *name, const char *detail,
                    char text[PROGRAM_ADVICE]) {
    const struct row *row = &rows[kind];
    text[0] = 0;
    if (row->before_detail)
        snprintf(text, PROGRAM_ADVICE, "%.*s%s%.*s%s", MAX_NAME, name, row->before_detail, MAX_NAME,
                 row->after_detail && detail ? detail : "",
                 row->after_detail ? row->after_detail : "");
}
