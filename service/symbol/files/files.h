/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by what they are rather than by who has mapped them: modules by build-id, the list of what
 * the store knows, its eviction, and debug files that somebody uploads.
 *
 * An upload is kept under <cache_dir>/uploads/.build-id/xx/yyyy.debug, named by the build-id that
 * was found in it and by nothing that was said about it; that directory is searched before the
 * other debug roots. Thread safety: any thread; an upload is one thread's at a time. Everything
 * here reads or writes disks: call it from a worker. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FILES_H
#define SONDE_SERVICE_SYMBOL_FILES_FILES_H

#include "service/symbol/symbol.h"

#define SYMBOL_BUILD_ID_TEXT   65 /* 32 bytes in hex and a NUL */
#define SYMBOL_FILES_MAX       65536u
#define SYMBOL_UPLOAD_MAX      ((uint64_t)4 << 30) /* bytes of one file */
#define SYMBOL_UPLOADS_DEFAULT ((uint64_t)16 << 30)

/* Lower-case hex of 2 to 32 bytes; false when text is something else. */
bool symbol_build_id_read(const char *text, char build_id[SYMBOL_BUILD_ID_TEXT]);

/* Whether an ELF file has that build-id. */
bool symbol_file_has_build_id(int fd, const char *build_id);

/* --- modules by build-id -----------------------------------------------------------------------
 */

/* A file with that build-id: one that is mapped somewhere, else an upload or a debug file of this
 * machine, else tables that are left of one. *module is the caller's to release. SONDE_NOT_FOUND,
 * SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err symbol_module_find(struct symbol_store *store, const char *build_id,
                                            struct symbol_module **module, struct sonde_diag *diag);
/* As symbol_module_bias; knows also what to do when the module is a debug file, whose segments have
 * lost their place in the file. */
bool symbol_module_bias_of(const struct symbol_module *module, const struct symbol_mapping *mapping,
                           uint64_t *bias);
/* Why answers of this module are less than FULL: "CONVERTING" (better ones are on the way),
 * "CONVERSION_FAILED", "NO_CONVERTER", "NO_DEBUG_INFO", or a symbol_reason_text; "" when they are
 * not. Opens the file: once a batch, not once an address. */
const char *symbol_module_shortfall(struct symbol_module *module);
extern const char symbol_converting[]; /* "CONVERTING", to be compared by pointer */
extern const char symbol_fetching[];   /* "FETCHING": a debuginfod server is asked; likewise */

/* --- the list ----------------------------------------------------------------------------------
 */

enum symbol_file_kind {
    SYMBOL_FILE_TABLES, /* tables made from a file, or a file that is mapped and has none yet */
    SYMBOL_FILE_UPLOAD,
};

enum symbol_file_state {
    SYMBOL_FILE_KNOWN, /* nobody asked for its names yet */
    SYMBOL_FILE_READY,
    SYMBOL_FILE_CONVERTING, /* names are there, the full table is on the way */
    SYMBOL_FILE_FAILED,     /* names at most: its DWARF could not be converted */
};

struct symbol_file {
    enum symbol_file_kind kind;
    enum symbol_file_state state;
    enum symbol_quality quality;
    char identity[96]; /* what evicts it */
    char build_id[SYMBOL_BUILD_ID_TEXT];
    char name[256];       /* base name of the module; "" = unknown */
    uint64_t bytes;       /* on disk */
    int64_t used_unix_ns; /* 0 = not known */
    const char *reason;   /* static; why it is less than full; "" = it is not */
    char detail[160];     /* a sentence: why a conversion failed; "" = it did not */
    bool is_loaded;       /* a process has it mapped */
};

/* At most SYMBOL_FILES_MAX, by identity; to be freed with free. NULL and 0 when there is none. */
SONDE_MUST_USE sonde_err symbol_files_list(struct symbol_store *store, struct symbol_file **files,
                                           size_t *count, struct sonde_diag *diag);

struct symbol_evicted {
    uint32_t files; /* entries of the list */
    uint64_t bytes;
};
/* Removes tables from the disk: of one identity or build-id, or all when `id` is NULL; uploads too
 * when `uploads` is set. Tables in use live on until their modules are released; a conversion that
 * failed is tried again. SONDE_NOT_FOUND when `id` fits nothing. */
SONDE_MUST_USE sonde_err symbol_files_evict(struct symbol_store *store, const char *id,
                                            bool uploads, struct symbol_evicted *evicted,
                                            struct sonde_diag *diag);

/* --- uploads -----------------------------------------------------------------------------------
 */

struct symbol_upload;

/* size: all of the file, as the sender says. SONDE_TOO_LARGE over SYMBOL_UPLOAD_MAX or when the
 * uploads would be over their bound, SONDE_NOT_AVAILABLE without a cache directory, SONDE_IO. */
SONDE_MUST_USE sonde_err symbol_upload_begin(struct symbol_store *store, uint64_t size,
                                             struct symbol_upload **upload,
                                             struct sonde_diag *diag);
/* The next bytes. SONDE_TOO_LARGE past the size that was said. */
SONDE_MUST_USE sonde_err symbol_upload_write(struct symbol_upload *upload, const void *bytes,
                                             size_t len, struct sonde_diag *diag);
uint64_t symbol_upload_missing(const struct symbol_upload *upload);
/* Judges the file and keeps it under its build-id, in place of an older upload. Frees upload.
 * SONDE_INVALID_ARGUMENT when bytes are missing, or it is no ELF file, or has no build-id, or
 * neither DWARF nor symbols. */
SONDE_MUST_USE sonde_err symbol_upload_finish(struct symbol_upload *upload,
                                              struct symbol_file *file, struct sonde_diag *diag);
void symbol_upload_abandon(struct symbol_upload *upload); /* NULL is fine */

#endif
