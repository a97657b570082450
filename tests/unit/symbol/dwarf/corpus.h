/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with inlined functions, cold parts, anonymous namespaces and more, compiled in many
 * ways, and llvm-symbolizer's answers for their addresses. */
#ifndef SONDE_TESTS_UNIT_SYMBOL_DWARF_CORPUS_H
#define SONDE_TESTS_UNIT_SYMBOL_DWARF_CORPUS_H

#include "tests/unit/symbol/fixture.h"

/* Writes one.cc, two.c and start.s into the fixture's directory. */
void corpus_write(void);

struct corpus_addresses {
    uint64_t items[4096];
    size_t count;
};

/* Addresses spread over the functions in the file's .symtab. */
void corpus_addresses(const char *path, struct corpus_addresses *addresses);

/* The answers as text, a block per address: lines "system name|file:line", innermost first, and an
 * empty line. Waits for the line table. The caller frees the text. */
char *corpus_render(struct symbol_store *store, const char *path,
                    const struct corpus_addresses *addresses);

enum corpus_peer { CORPUS_LLVM, CORPUS_ADDR2LINE, CORPUS_EU };

/* How an answer can differ from a peer's. */
enum corpus_difference {
    CORPUS_CLONE_SUFFIX,
    CORPUS_COPY_OF_CONSTRUCTOR,
    CORPUS_SCOPE,
    CORPUS_ALIAS,
    CORPUS_PLT,
    CORPUS_ONLY_WE_NAME,
    CORPUS_OTHER_NAME,
    CORPUS_PATH,
    CORPUS_ONLY_ONE_HAS_A_LINE,
    CORPUS_OTHER_LINE,
    CORPUS_OTHER_FILE,
    CORPUS_MORE_FRAMES,
    CORPUS_FEWER_FRAMES,
    CORPUS_DIFFERENCES,
};
const char *corpus_difference_text(enum corpus_difference difference);

/* outer to whole: the number of addresses that agree, ignoring clone suffixes, variants of
 * constructors, scopes and aliases. differences: the number of addresses whose raw texts differ in
 * each way. */
struct corpus_agreement {
    size_t count, outer, leaf_line, frames, whole;
    size_t differences[CORPUS_DIFFERENCES];
};

/* Compares with a peer. Prints the first disagreements with llvm-symbolizer to stderr. */
struct corpus_agreement corpus_compare(struct symbol_store *store, const char *path,
                                       const struct corpus_addresses *addresses,
                                       enum corpus_peer peer);

/* Compares, and fails the test if less than 99.5 % of outer functions or leaf lines agree. */
void corpus_check(const char *path, const char *how);

/* Compiles the corpus to `prog` with gcc or clang; `link` has options for the linking step only. */
const char *corpus_compile(const char *family, const char *flags, const char *link);

/* A store that runs the tests' worker program. */
struct symbol_store *corpus_store(const char *cache_dir);
const char *corpus_worker(void);

#endif
