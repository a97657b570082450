/* SPDX-License-Identifier: Apache-2.0
 *
 * What to do about functions without names, and about features that a program cannot have: one
 * table by kind of program, for profiles, the gateway's page and the command line. Thread safety:
 * any thread. */
#ifndef SONDE_API_PROGRAM_ADVICE_H
#define SONDE_API_PROGRAM_ADVICE_H

#include "api/elf/elf.h"

enum program_kind {
    PROGRAM_OTHER = 0,  /* there is nothing to say */
    PROGRAM_NODE,       /* runtimes, which have to be started so that they name their functions */
    PROGRAM_PYTHON,     /* 3.12 or later, or of unknown version */
    PROGRAM_OLD_PYTHON, /* cannot name them */
    PROGRAM_JAVA,
    PROGRAM_PACKAGED, /* a stripped file of a Debian package; detail: the package with its names */
    PROGRAM_PACKAGED_MAIN, /* the same if that package is in Debian's main archive */
    PROGRAM_STRIPPED,      /* any other stripped file */
    PROGRAM_UNREADABLE,    /* a file whose section headers cannot be read (elf_file) */
    PROGRAM_STATIC_GO,     /* static programs, which cannot load libsonde.so */
    PROGRAM_STATIC,
    PROGRAM_KINDS
};

/* The kind of a runtime by the base name of its program: "node", "python3.12", "java".
 * PROGRAM_OTHER for all else. */
enum program_kind program_kind_of_runtime(const char *executable);

/* PROGRAM_STATIC or PROGRAM_STATIC_GO, or PROGRAM_OTHER for a program with a dynamic linker, and
 * for the dynamic linker. */
enum program_kind program_kind_of_elf(const struct elf_file *elf);

/* Writes a sentence about the program or file `name`; "" for PROGRAM_OTHER. `detail`: see the kind;
 * else NULL. */
#define PROGRAM_ADVICE 320
void program_advice(enum program_kind kind, const char *name, const char *detail,
                    char text[PROGRAM_ADVICE]);

#endif
