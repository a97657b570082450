/* SPDX-License-Identifier: Apache-2.0
 *
 * The path and the executable segments of a file, which its tables do not contain. They are saved
 * beside the tables as a few lines of text (<identity>.info), so that addresses can be resolved
 * after the file itself is gone:
 *
 *     path /usr/bin/redis-server
 *     load 4a000 1c3f21 4b000        p_offset, p_filesz, p_vaddr of an executable segment, in hex
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FILE_INFO_H
#define SONDE_SERVICE_SYMBOL_FILES_FILE_INFO_H

#include "api/bytes.h"
#include "api/elf/elf.h"

#define SYMBOL_FILE_INFO_MAX_BYTES ((size_t)64 << 10)

struct symbol_file_info {
    char path[4096];   /* "" = unknown */
    Elf64_Phdr *loads; /* owned */
    uint32_t load_count;
};

void symbol_file_info_write(const char *path, const Elf64_Phdr *loads, uint32_t count,
                            struct sonde_buf *out);
/* Skips lines that it does not understand. Returns false if out of memory. */
bool symbol_file_info_read(struct sonde_slice text, struct symbol_file_info *info);
void symbol_file_info_finish(struct symbol_file_info *info);

#endif
