/* SPDX-License-Identifier: Apache-2.0
 *
 * Files independent of any process: modules by build-id, the list of the files that the store
 * knows, their eviction, and uploaded debug files.
 *
 * An upload is stored as <cache_dir>/uploads/.build-id/xx/yyyy.debug. The name is the build-id
 * found in the file; nothing that the client says about the file counts. That directory is searched
 * before the other debug roots. Thread safety: any thread; one upload is used by one thread at a
 * time. Everything here reads or writes files, so do not call it on an event loop's thread. */
#ifndef SONDE_SERVICE_SYMBOL_FILES_FILES_H
#define SONDE_SERVICE_SYMBOL_FILES_FILES_H

#include "service/symbol/files/file_identity.h"
#include "service/symbol/symbol.h"

#define SYMBOL_BUILD_ID_TEXT   65 /* 32 bytes in hex and a NUL */
#define SYMBOL_FILES_MAX       65536u
#define SYMBOL_UPLOAD_MAX      ((uint64_t)4 << 30) /* bytes of one file */
#define SYMBOL_UPLOADS_DEFAULT ((uint64_t)16 << 30)

/* Parses 2 to 32 bytes in hex and writes them in lower case; false if text is something else. */
bool symbol_build_id_read(const char *text, char build_id[SYMBOL_BUILD_ID_TEXT]);

/* Whether fd is an ELF file with that build-id. */
bool symbol_file_has_build_id(int fd, const char *build_id);

/* --- modules by build-id ---------------------------------------------------------------------- */

/* Finds a file with that build-id: a mapped file, else an upload or a debug file on this machine,
 * else the cached tables of a file that is gone. The caller releases *module. SONDE_NOT_FOUND,
 * SONDE_INVALID_ARGUMENT (also for a file of another machine, which the sentence names). */
SONDE_MUST_USE sonde_err symbol_module_find(struct symbol_store *store, const char *build_id,
                                            struct symbol_module **module, struct sonde_diag *diag);
/* Opens the file at a path of this machine, for addresses that another program has recorded. It
 * must have that build-id; "" = any. The caller releases *module. SONDE_NOT_FOUND: there is no such
 * file, or another one. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_module_open_path(struct symbol_store *store, const char *path,
                                                 const char *build_id,
                                                 struct symbol_module **module);
/* Like symbol_module_bias, but also for debug files, whose segments have lost their file
 * offsets. */
bool symbol_module_bias_of(const struct symbol_module *module, const struct symbol_mapping *mapping,
                           uint64_t *bias);
/* Why answers of this module have less than FULL quality: "CONVERTING" (its line table is being
 * built), "FETCHING", "CONVERSION_FAILED", "NO_CONVERTER", "NO_DEBUG_INFO", or a
 * symbol_reason_text; "" if they have it. It reads the file, so call it once per batch. */
const char *symbol_module_shortfall(struct symbol_module *module);
/* Two of these, to be compared by pointer. */
extern const char symbol_converting[]; /* "CONVERTING" */
extern const char symbol_fetching[];   /* "FETCHING": a debuginfod server is being asked */

/* --- the list --------------------------------------------------------------------------------- */

enum symbol_file_kind {
    SYMBOL_FILE_TABLES, /* the tables of a file, or a mapped file that has none yet */
    SYMBOL_FILE_UPLOAD,
};

enum symbol_file_state {
    SYMBOL_FILE_KNOWN, /* its symbols were not needed yet */
    SYMBOL_FILE_READY,
    SYMBOL_FILE_CONVERTING, /* symbols are ready, the line table is being built */
    SYMBOL_FILE_FAILED,     /* its line table, or even its symbol table, could not be built */
};

struct symbol_file {
    enum symbol_file_kind kind;
    enum symbol_file_state state;
    enum symbol_quality quality;
    char identity[FILE_IDENTITY_MAX]; /* accepted by symbol_files_evict */
    char build_id[SYMBOL_BUILD_ID_TEXT];
    char name[256];       /* base name of the module; "" = unknown */
    uint64_t bytes;       /* on disk */
    int64_t used_unix_ns; /* last use; 0 = unknown */
    const char *reason;   /* symbol_module_shortfall; static */
    char detail[160];     /* symbol_failure_text */
    bool is_loaded;       /* a process has it mapped */
};

/* At most SYMBOL_FILES_MAX files, sorted by identity. The caller frees *files, which is NULL if
 * there are none. */
SONDE_MUST_USE sonde_err symbol_files_list(struct symbol_store *store, struct symbol_file **files,
                                           size_t *count, struct sonde_diag *diag);

struct symbol_evicted {
    uint32_t files; /* entries of the list */
    uint64_t bytes;
};
/* Removes tables from the disk: those of one identity or build-id, or all if `id` is NULL; with
 * `uploads`, also uploads. Tables in use stay until their modules are released. Failed worker runs
 * are forgotten, so they can be repeated. SONDE_NOT_FOUND if `id` matches nothing. */
SONDE_MUST_USE sonde_err symbol_files_evict(struct symbol_store *store, const char *id,
                                            bool uploads, struct symbol_evicted *evicted,
                                            struct sonde_diag *diag);

/* --- uploads ---------------------------------------------------------------------------------- */

struct symbol_upload;

/* size is the whole file's, as announced by the client. SONDE_TOO_LARGE if it exceeds
 * SYMBOL_UPLOAD_MAX or what is left of the store's limit, SONDE_NOT_AVAILABLE without a cache
 * directory, SONDE_IO. */
SONDE_MUST_USE sonde_err symbol_upload_begin(struct symbol_store *store, uint64_t size,
                                             struct symbol_upload **upload,
                                             struct sonde_diag *diag);
/* Appends bytes. SONDE_TOO_LARGE past the announced size. */
SONDE_MUST_USE sonde_err symbol_upload_write(struct symbol_upload *upload, const void *bytes,
                                             size_t len, struct sonde_diag *diag);
uint64_t symbol_upload_missing(const struct symbol_upload *upload);
/* Checks the file and stores it under its build-id, replacing an older upload. Frees upload.
 * SONDE_INVALID_ARGUMENT if bytes are missing, or if the file is not ELF, has no build-id, or has
 * neither DWARF nor symbols. */
SONDE_MUST_USE sonde_err symbol_upload_finish(struct symbol_upload *upload,
                                              struct symbol_file *file, struct sonde_diag *diag);
void symbol_upload_abandon(struct symbol_upload *upload); /* NULL is fine */

#endif
