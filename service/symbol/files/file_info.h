/* SPDX-License-Identifier: Apache-2.0
 *
 * What a table does not say of the file it was made from: its path and where its code was loaded
 * from. A few lines of text beside the tables (<identity>.about), so that addresses can be named
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

#define SYMBOL_ABOUT_MAX_BYTES ((size_t)64 << 10)

struct symbol_about {
    char path[4096];   /* "" = unknown */
    Elf64_Phdr *loads; /* to be freed */
    uint32_t load_count;
};

void symbol_about_write(const char *path, const Elf64_Phdr *loads, uint32_t count,
                        struct sonde_buf *out);
/* Takes what it understands; other lines are left out. False when out of memory. */
bool symbol_about_read(struct sonde_slice text, struct symbol_about *about);
void symbol_about_finish(struct symbol_about *about);

#endif
