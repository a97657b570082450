/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

sonde_err symbol_names_of_files(int fd, int debug_fd, const char *identity,
                                struct sonde_buf *image) {
    struct symbol_elf_input input, debug_input;
    struct symbol_elf elf = {0}, debug = {0};
    struct symbol_collection collection = {0};
    sonde_err err = SONDE_CORRUPT;
    if (symbol_elf_input_of_file(fd, &input))
        err = symbol_elf_open(&input, &elf, NULL);
    bool has_debug = symbol_elf_input_of_file(debug_fd, &debug_input) &&
                     symbol_elf_open(&debug_input, &debug, NULL) == SONDE_OK;
    if (err == SONDE_OK)
        err = symbol_collect(&elf, has_debug ? &debug : NULL, &collection);
    if (err == SONDE_OK)
        err = symbol_names_build(&collection, identity, has_debug ? SYMBOL_NAMES_HAD_DEBUG : 0,
                                 image);
    symbol_collection_finish(&collection);
    symbol_elf_finish(&elf);
    symbol_elf_finish(&debug);
    return err;
}
