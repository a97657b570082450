/* SPDX-License-Identifier: Apache-2.0
 *
 * The key under which a file's unwind, symbol and line tables are cached, in memory and on disk.
 *
 * Tables depend on a file's whole content, but a key is made of its build-id and a hash of its
 * size, edges, program headers and modification time (without build-id, also of its inode and
 * change time). Whoever can write a file can make another one with the same key. So the rule is:
 *
 *   - A file is trusted if its owner is root or sonded's own user, if neither its group nor others
 *     may write it, and if it is not on a FUSE file system, where a user decides what the owner and
 *     the content are. The keys of trusted files consist of the content part only. So copies of an
 *     installed file share tables if they kept its modification time.
 *   - The key of any other file also has its device, inode, size, change time and owner, so its
 *     tables serve only processes that mapped this very file, unchanged.
 *   - A debug file (also the one to which dwz moved shared DWARF) is part of the key unless it is
 *     trusted and everybody may read it: tables with names from a debug file serve only processes
 *     for which that debug file was found and could be read.
 *
 * If sonded is not root, it serves only its own user, and all that its user may read counts as
 * readable by everybody.
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FILE_IDENTITY_H
#define SONDE_SERVICE_SYMBOL_FILES_FILE_IDENTITY_H

#include <stdbool.h>
#include <sys/stat.h>

/* A build-id of 32 bytes in hex, a hash, the fields of an untrusted file, and two debug files. */
#define FILE_IDENTITY_MAX 224

/* Whether only root or sonded's own user can change the file. file_system: statfs's f_type. */
bool file_is_trusted(const struct stat *file, long file_system);
/* Whether it is trusted and all targets may read it. */
bool file_is_public(int fd);

/* Writes the key of the file. `content` identifies what is known of its content. */
void file_identity(int fd, const char *content, char key[FILE_IDENTITY_MAX]);
/* Adds a debug file (-1 = none) to the key. Returns false, and leaves the key unchanged, if the key
 * would be too long. */
bool file_identity_add_debug(int fd, char key[FILE_IDENTITY_MAX]);
/* Whether a key is only that of a content. */
bool file_identity_is_shared(const char *key);

/* Whether two states are of the same, unchanged file. */
bool file_is_unchanged(const struct stat *before, const struct stat *now);

#endif
