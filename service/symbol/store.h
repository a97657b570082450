/* SPDX-License-Identifier: Apache-2.0
 *
 * The internals of a store and its modules, shared by the files that implement them.
 *
 * A store holds one module per file identity. A module has a symbol table, which the first thread
 * that asks for it builds while the others wait, and it may have a line table, which the store's
 * lines thread has a worker process build in the background. Locks: the store's lock protects the
 * list of modules, a module's lock its tables. Do not take the store's lock while holding a
 * module's. */
#ifndef SONDE_SERVICE_SYMBOL_STORE_H
#define SONDE_SERVICE_SYMBOL_STORE_H

#include "api/elf/elf.h"
#include "api/hash_index.h"
#include "service/locks.h"
#include "service/process/memory_share.h"
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/display_names.h"
#include "service/symbol/files/failure.h"
#include "service/symbol/files/table_cache.h"
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/lines/line_table.h"
#include "service/symbol/symbol.h"
#include "service/symbol/symtab/symbol_table.h"
#include "service/symbol/worker/run_process.h"

#include <sys/stat.h>
#include <time.h>

#define SYMBOL_RECENT_MODULES 16
#define SYMBOL_WORKERS        16 /* processes at a time; further runs wait for one to end */

struct symbol_store {
    struct symbol_cache cache;
    char *debug_roots; /* ':'-separated; NULL = the default */
    struct lock lock;
    struct symbol_module *modules;
    _Atomic uint64_t tables_built;

    /* Building line tables; under the lock. */
    char *worker; /* program to run as a worker; NULL = no line tables */
    pthread_t lines_thread;
    pthread_cond_t wanted;         /* signalled when a module is queued or the store stops */
    struct symbol_module *queue;   /* linked by `queued`; each entry holds a reference */
    pid_t workers[SYMBOL_WORKERS]; /* 0 = free slot */
    pthread_cond_t worker_ended;
    bool has_lines_thread, stopping;

    struct symbol_fetch *fetch; /* NULL = no debuginfod servers; never changes */

    /* Modules by build-id and uploads (files/); under the lock. */
    struct symbol_module *recent[SYMBOL_RECENT_MODULES]; /* asked for lately; retained */
    uint32_t next_recent;
    uint64_t upload_limit, uploading; /* bytes: of all uploads, and of those in progress */
    bool has_uploads;                 /* the cache directory is one of debug_roots; never changes */
};

/* A symbol table in use, and the demangled names of its symbols. */
struct loaded_symbols {
    struct symbol_image image;
    struct symbol_table table;
    struct symbol_display_names display;
};

/* A line table in use, and the demangled names of its functions. */
struct loaded_lines {
    struct symbol_image image;
    struct line_table table;
    struct symbol_display_names display;
};

enum symbol_state { SYMBOL_UNBUILT, SYMBOL_BUILDING, SYMBOL_READY };

/* The reads of kallsyms. */
struct symbol_kernel_looks {
    int64_t next_ms;        /* CLOCK_MONOTONIC: none before; 0 = there was none yet */
    struct hash_index seed; /* of the hash; it has no entries */
    uint32_t hash;          /* of the last text */
};

struct symbol_module {
    struct symbol_store *store;
    struct symbol_module *next;
    uint32_t references; /* under the store's lock */
    enum symbol_module_kind kind;
    _Atomic(enum symbol_reason) reason;
    char *path;
    char build_id[2 * ELF_BUILD_ID_MAX + 1];
    char identity[SYMBOL_IDENTITY_MAX];      /* the key of its tables (files/file_identity.h) */
    char file_identity[SYMBOL_IDENTITY_MAX]; /* the same without debug files */

    int fd;               /* -1 = none */
    _Atomic int debug_fd; /* the separate debug file, -1 = none; an upload can provide it later */
    int alt_fd;           /* the file that dwz moved shared DWARF to, as the process saw it; -1 */
    Elf64_Phdr *loads;    /* executable segments */
    uint32_t load_count;
    bool is_flat;        /* memory of one process: vaddr = runtime address */
    bool has_fixed_bias; /* the code was copied to memory, so no mapping of the file locates it */
    uint64_t fixed_bias;

    struct stat opened; /* the mapped file when it was opened; inode 0 = opened without a mapping */

    struct lock lock;
    pthread_cond_t changed;
    enum symbol_state symbols_state;
    struct loaded_symbols symbols; /* does not change once symbols_state is READY */
    _Atomic(struct loaded_symbols *) better_symbols; /* built later from an upload; then fixed */
    enum symbol_state lines_state;                   /* READY without a table: there is none */
    struct loaded_lines lines;                       /* does not change once READY */
    struct symbol_failure failure; /* of the last worker run; cause NONE if it succeeded */
    char *advice;                  /* symbol_module_advice, which searches once; NULL = not yet */
    struct symbol_module *queued;

    /* For memory of a process: what the JIT compiler's files said when they were last read. */
    pid_t pid; /* 0 = the kernel */
    uint64_t process_start;
    struct symbol_jit *jit;
    struct symbol_kernel_looks looks;
    struct symbol_jit_sources *sources; /* NULL until the first lookup */
};

/* --- files (module_file.c) ------------------------------------------------------------------- */

/* Takes fd. If the file is not a supported ELF file, the module gets no names. pid: the process in
 * whose root debug files are looked up first; 0 = none. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_module_read_file(struct symbol_module *module, int fd, pid_t pid);

/* --- symbol tables (module_symbols.c) --------------------------------------------------------- */

/* The module's symbol table, loaded or built if needed. NULL if it has none. */
struct loaded_symbols *symbol_module_symbols(struct symbol_module *module);
/* Builds the table again because a debug file has arrived, and uses it if it is better. */
void symbol_module_improve_symbols(struct symbol_module *module);
void loaded_symbols_finish(struct loaded_symbols *symbols);

/* --- line tables (module_lines.c) ------------------------------------------------------------- */

/* The line table if it is ready. Otherwise starts building it, waits until the deadline
 * (CLOCK_MONOTONIC; NULL = do not wait), and returns NULL if it is still not ready. */
struct loaded_lines *symbol_module_lines(struct symbol_module *module,
                                         const struct timespec *deadline);
void loaded_lines_finish(struct loaded_lines *lines);
/* Ends the lines thread and its worker, and releases the queue. */
void symbol_lines_thread_stop(struct symbol_store *store);

/* --- code without a file (jit/jit.c) ---------------------------------------------------------- */

struct symbol_jit_row {
    uint64_t address;
    uint32_t file, line; /* file: offset into files; line 0 = unknown from here on */
};

/* Names of code without a file, by runtime address, in tables of at most 4 GiB of addresses. */
struct symbol_jit {
    _Atomic uint32_t references;
    uint32_t count;
    struct loaded_symbols *tables; /* sorted by base */
    struct symbol_jit_row *rows;   /* sorted by address */
    uint32_t row_count;
    struct sonde_buf files;
    struct memory_share share;
    struct symbol_core core; /* of the kernel; else empty */
};
/* The names in the process's perf map and jitdump, which are read again when they change, at most
 * once a second. For the kernel they are those of kallsyms, which is read again if the address (0 =
 * none) is in code that comes and goes. The caller releases the result. NULL if there are none. */
struct symbol_jit *symbol_module_jit(struct symbol_module *module, uint64_t address);
/* Opens the files of the module's process while it is alive, so that they can be read when it has
 * ended. */
void symbol_jit_watch(struct symbol_module *module);
void symbol_jit_release(struct symbol_jit *jit);
void symbol_jit_sources_destroy(struct symbol_jit_sources *sources);
struct loaded_symbols *symbol_jit_symbols(struct symbol_jit *jit, uint64_t address);
/* The file ("" if only the line is known) and the line; NULL if neither is known. */
const char *symbol_jit_line(const struct symbol_jit *jit, uint64_t address, uint32_t *line);

/* --- tables from worker processes (worker/run_worker.c) ----------------------------- */

/* Has a worker build a table of that kind (SYMBOL_WORKER_SYMBOLS or _LINES) and returns the open
 * file. On failure returns -1 and the reason; cause NONE means that the store is ending. A run that
 * failed lately for the same file is not repeated. */
int symbol_worker_run(struct symbol_module *module, const char *kind,
                      struct symbol_failure *failure);
/* A hash of the worker program and the module's files, for symbol_failure.subject. */
uint64_t symbol_worker_subject(const struct symbol_module *module);
/* Whether the module's file or its debug file has DWARF. */
bool symbol_module_has_dwarf(struct symbol_module *module);

/* --- modules without a mapping (module.c) ----------------------------------------------------- */

/* A module for an ELF file that no process needs to have mapped. Takes fd. */
SONDE_MUST_USE sonde_err symbol_module_open_file(struct symbol_store *store, int fd,
                                                 const char *path, struct symbol_module **module);
/* A module whose file is gone but whose tables are in the cache. It is not in the store's list. */
struct symbol_module *symbol_module_open_tables(struct symbol_store *store, const char *path,
                                                const char *identity);

/* --- modules by build-id (files/by_build_id.c, files/recent_modules.c) ------------------------ */

/* Sets the store's debug_roots: uploads, then `roots` (NULL = the default). False if out of
 * memory. */
bool symbol_store_set_debug_roots(struct symbol_store *store, const char *cache_dir,
                                  const char *roots);
/* Writes the module's path and segments to the cache, for lookups after the file is gone. */
void symbol_module_save_file_info(const struct symbol_module *module);
/* Opens the upload with that build-id; -1 = none. */
int symbol_upload_open(const struct symbol_store *store, const char *build_id);
/* An upload with that build-id has arrived: modules that lack debug information use it. */
void symbol_store_use_upload(struct symbol_store *store, const char *build_id);

/* Retains a module that was asked for by build-id until SYMBOL_RECENT_MODULES others were, so that
 * its tables stay open and its names demangled from one request to the next. */
void symbol_recent_add(struct symbol_module *module);
void symbol_recent_remove(struct symbol_module *module);
/* build_id NULL = all. */
void symbol_recent_remove_all(struct symbol_store *store, const char *build_id);

#endif
