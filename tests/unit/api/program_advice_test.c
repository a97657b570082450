/* SPDX-License-Identifier: Apache-2.0 */
#include "api/program_advice.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TEST(runtimes_are_known_by_the_name_of_their_program) {
    static const struct {
        const char *name;
        enum program_kind kind;
    } rows[] = {
        {"node", PROGRAM_NODE},
        {"nodejs", PROGRAM_NODE},
        {"java", PROGRAM_JAVA},
        {"python3.11", PROGRAM_OLD_PYTHON},
        {"python3.12", PROGRAM_PYTHON},
        {"python3.13d", PROGRAM_PYTHON},
        {"python3.9d", PROGRAM_OLD_PYTHON},
        {"python2.7", PROGRAM_OLD_PYTHON},
        {"python3", PROGRAM_PYTHON},
        {"python", PROGRAM_PYTHON},
        {"python3-config", PROGRAM_OTHER},
        {"pythonista", PROGRAM_OTHER},
        {"node_exporter", PROGRAM_OTHER},
        {"javac", PROGRAM_OTHER},
        {"redis-server", PROGRAM_OTHER},
        {"", PROGRAM_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (program_kind_of_runtime(rows[i].name) != rows[i].kind)
            check_fail(__FILE__, __LINE__, "%s is %d, not %d", rows[i].name,
                       program_kind_of_runtime(rows[i].name), rows[i].kind);
}

TEST(each_kind_has_a_sentence_that_says_what_to_do) {
    static const char *const parts[PROGRAM_KINDS] = {
        [PROGRAM_NODE] = "it: JavaScript functions have no names; start it with node "
                         "--perf-basic-prof",
        [PROGRAM_PYTHON] = "-X perf",
        [PROGRAM_OLD_PYTHON] = "only Python 3.12 and later",
        [PROGRAM_JAVA] = "Compiler.perfmap",
        [PROGRAM_PACKAGED] = "it is stripped; install x-dbgsym from "
                             "http://deb.debian.org/debian-debug, or start sonded with "
                             "--debuginfod https://debuginfod.debian.net",
        [PROGRAM_PACKAGED_MAIN] = "it is stripped; install x-dbgsym, or start sonded with "
                                  "--debuginfod",
        [PROGRAM_STRIPPED] = "it is stripped; link it without -s",
        [PROGRAM_UNREADABLE] = "it has damaged section headers, or too many",
        [PROGRAM_STATIC_GO] = "net/http/pprof",
        [PROGRAM_STATIC] = "it is statically linked",
    };
    char text[PROGRAM_ADVICE], name[300];
    for (int kind = 1; kind < PROGRAM_KINDS; kind++) {
        program_advice((enum program_kind)kind, "it", "x-dbgsym", text);
        if (!strstr(text, parts[kind]))
            check_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"", parts[kind], text);
        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = 0;
        program_advice((enum program_kind)kind, name, name, text);
        CHECK(strlen(text) < PROGRAM_ADVICE - 1); /* nothing is cut but the names */
    }
    program_advice(PROGRAM_OTHER, "it", NULL, text);
    CHECK_STR(text, "");
}

TEST(the_dynamic_linker_is_not_a_static_program) {
    struct elf_file elf = {0};
    struct elf_input input;
    int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC);
    CHECK(elf_input_of_file(fd, &input));
    CHECK_INT(elf_open(&input, &elf, NULL), ==, SONDE_OK);
    CHECK_INT(program_kind_of_elf(&elf), ==, PROGRAM_OTHER);
    elf_finish(&elf);
    close(fd);
}

TEST(programs_without_a_dynamic_linker_are_static) {
    Elf64_Phdr segments[] = {{.p_type = PT_LOAD}, {.p_type = PT_INTERP}};
    char names[] = "\0.go.buildinfo";
    Elf64_Shdr section = {.sh_name = 1, .sh_type = SHT_PROGBITS};
    struct elf_file elf = {.segments = segments,
                           .segment_count = 2,
                           .sections = &section,
                           .section_count = 1,
                           .section_names = names,
                           .section_names_len = sizeof names};
    CHECK_INT(program_kind_of_elf(&elf), ==, PROGRAM_OTHER);
    elf.segment_count = 1;
    CHECK_INT(program_kind_of_elf(&elf), ==, PROGRAM_STATIC_GO);
    elf.section_count = 0;
    CHECK_INT(program_kind_of_elf(&elf), ==, PROGRAM_STATIC);
}
