/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/symtab/collect_symbols.h"
#include "service/symbol/symtab/symbol_table.h"

sonde_err symbol_table_build_from_files(int fd, int debug_fd, const char *identity,
                                        struct sonde_buf *image) {
    struct elf_input input, debug_input;
    struct elf_file elf = {0}, debug = {0};
    struct symbol_collection collection = {0};
    sonde_err err = SONDE_CORRUPT;
    if (elf_input_of_file(fd, &input))
        err = elf_open(&input, &elf, NULL);
    bool has_debug = elf_input_of_file(debug_fd, &debug_input) &&
                     elf_open(&debug_input, &debug, NULL) == SONDE_OK;
    if (err == SONDE_OK)
        err = symbol_collect(&elf, has_debug ? &debug : NULL, &collection);
    if (err == SONDE_OK)
        err = symbol_table_build(&collection, identity, has_debug ? SYMBOL_TABLE_HAD_DEBUG : 0,
                                 image);
    symbol_collection_finish(&collection);
    elf_finish(&elf);
    elf_finish(&debug);
    return err;
}
