/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of store and module, shared by store.c, module.c, tables.c and resolve.c.
 *
 * A store holds one module per file identity; a module holds one table of names, built by the first
 * thread that asks while the others wait, and perhaps a full table, converted in the background by
 * the store's one converter thread and its worker process. Locks: the store's for the list, the
 * module's for its tables; never the store's inside the module's. */
#ifndef SONDE_SERVICE_SYMBOL_STORE_H
#define SONDE_SERVICE_SYMBOL_STORE_H

#include "api/elf/elf.h"
#include "service/locks.h"
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/display_names.h"
#include "service/symbol/files/failure.h"
#include "service/symbol/files/table_cache.h"
#include "service/symbol/lines/line_table.h"
#include "service/symbol/symbol.h"
#include "service/symbol/symtab/symbol_table.h"

#include <sys/stat.h>
#include <time.h>

#define SYMBOL_KEPT    16
#define SYMBOL_WORKERS 16 /* that run at a time; who wants one more waits */

struct symbol_store {
    struct symbol_cache cache;
    char *debug_roots; /* NULL = the usual */
    struct lock lock;
    struct symbol_module *modules;
    _Atomic uint64_t tables_built;

    /* Conversion; under the lock. */
    char *worker; /* NULL = names only */
    pthread_t converter;
    pthread_cond_t wanted;
    struct symbol_module *queue;   /* through `queued`; each entry holds a reference */
    pid_t workers[SYMBOL_WORKERS]; /* 0 = a free place */
    pthread_cond_t worker_ended;
    bool converter_runs, stopping;

    struct symbol_fetch *fetch; /* NULL = no servers; fixed */

    /* Files by build-id and uploads (archive.c, uploads.c); under the lock. */
    struct symbol_module *kept[SYMBOL_KEPT]; /* asked about lately; retained */
    uint32_t next_kept;
    uint64_t upload_limit, uploading; /* bytes: of all uploads, and of those under way */
    bool has_uploads;                 /* the cache directory is among debug_roots; fixed */
};

/* A table of names with the demangled ones, as it is in use. */
struct symbol_table {
    struct symbol_image image;
    struct symbol_names names;
    struct symbol_shown shown;
};

/* A full table; names are kept demangled by the number of the function. */
struct symbol_full_table {
    struct symbol_image image;
    struct symbol_full full;
    struct symbol_shown shown;
};

enum symbol_state { SYMBOL_UNBUILT, SYMBOL_BUILDING, SYMBOL_READY };

struct symbol_module {
    struct symbol_store *store;
    struct symbol_module *next;
    uint32_t references; /* under the store's lock */
    enum symbol_module_kind kind;
    _Atomic(enum symbol_reason) reason;
    char *path;
    char build_id[2 * ELF_BUILD_ID_MAX + 1];
    char identity[SYMBOL_IDENTITY_MAX];

    int fd;               /* -1 = none */
    _Atomic int debug_fd; /* likewise; an upload may bring it later */
    int alt_fd;           /* what dwz moved out of either, as the process saw it; likewise fixed */
    Elf64_Phdr *loads;
    uint32_t load_count;
    bool is_flat; /* vaddr = runtime address: memory of one process */
    /* Its code was copied into memory: nothing but this says where it is. */
    bool has_fixed_bias;
    uint64_t fixed_bias;

    /* Where it was seen last, so that the next mapping of it needs no opening. */
    uint32_t seen_major, seen_minor;
    uint64_t seen_inode;
    struct stat seen_stat;

    struct lock lock;
    pthread_cond_t changed;
    enum symbol_state state;
    struct symbol_table table;             /* fixed once the state is READY */
    _Atomic(struct symbol_table *) better; /* made since, with an uploaded debug file; then fixed */
    enum symbol_state full_state;          /* READY without a header: there is none */
    struct symbol_full_table full_table;   /* likewise */
    struct symbol_failure failure;         /* of the last conversion; none when it went well */
    struct symbol_module *queued;

    /* Of memory of a process: what its compiler's files said when they were last looked at. */
    pid_t pid; /* 0 = the kernel */
    uint64_t process_start;
    struct symbol_jit *jit;
    struct symbol_jit_sources *sources; /* NULL = nobody looked yet */
};

/* The module's table of names, built or loaded when needed. NULL when it has none. */
struct symbol_table *symbol_module_table(struct symbol_module *module);
/* Makes a table anew, because a debug file has come, and takes it when it is better. */
void symbol_module_improve(struct symbol_module *module);
void symbol_table_finish(struct symbol_table *table);

struct symbol_jit_row {
    uint64_t address;
    uint32_t file, line; /* file: offset into files; line 0 = unknown from here on */
};

/* Names of code without a file, by runtime address: tables of 4 GiB each at most. */
struct symbol_jit {
    _Atomic uint32_t references;
    uint32_t count;
    struct symbol_table *tables; /* by rising base */
    struct symbol_jit_row *rows; /* by address */
    uint32_t row_count;
    struct sonde_buf files;
};
/* What perf map and jitdump say now; looked at again when they changed, at most once a second.
 * Retained; NULL when there is none. */
struct symbol_jit *symbol_module_jit(struct symbol_module *module);
void symbol_jit_release(struct symbol_jit *jit);
void symbol_jit_sources_destroy(struct symbol_jit_sources *sources);
struct symbol_table *symbol_jit_table(struct symbol_jit *jit, uint64_t address);
/* The file, "" when only the line is known, and the line; NULL = neither is. */
const char *symbol_jit_line(const struct symbol_jit *jit, uint64_t address, uint32_t *line);

/* The full table if it is there; otherwise NULL, and its conversion begins. Waits for it until the
 * deadline (CLOCK_REALTIME; NULL = not at all). */
struct symbol_full_table *symbol_module_full(struct symbol_module *module,
                                             const struct timespec *deadline);
void symbol_full_table_finish(struct symbol_full_table *table);
/* Ends the converter thread and its worker, and lets go of what is queued. */
void symbol_converter_stop(struct symbol_store *store);

/* run.c: starts the store's worker program with these words (NULL-ended; at most 8) and fds[3 up to
 * fd_end] as its descriptors of the same numbers, and waits for its end, or ends it. */
enum symbol_run_end {
    SYMBOL_RUN_ENDED, /* by itself: status */
    SYMBOL_RUN_LATE,
    SYMBOL_RUN_NOT_STARTED,
    SYMBOL_RUN_STORE_ENDS,
};
struct symbol_run {
    enum symbol_run_end end;
    int status; /* waitpid's */
    uint64_t cpu_ms;
};
struct symbol_run symbol_run(struct symbol_store *store, const char *const *arguments,
                             const int *fds, int fd_end, int timeout_ms);

/* Runs a worker on a module (kind: SYMBOL_WORKER_NAMES or _FULL) and leaves the table's file open;
 * -1 and the failure = there is none, NONE when the store is ending. What failed lately is not
 * tried. */
int symbol_convert(struct symbol_module *module, const char *kind, struct symbol_failure *failure);
/* Converter and file, as a failure's subject. */
uint64_t symbol_convert_subject(const struct symbol_module *module);
/* Whether the module has DWARF somewhere. */
bool symbol_module_has_dwarf(struct symbol_module *module);

/* module.c. A module of an ELF file that no process need have mapped. Takes fd. */
SONDE_MUST_USE sonde_err symbol_module_open_file(struct symbol_store *store, int fd,
                                                 const char *path, struct symbol_module **module);
/* A module of an identity whose tables are in the cache, its file being gone: not in the store's
 * list. */
struct symbol_module *symbol_module_open_tables(struct symbol_store *store, const char *path,
                                                const char *identity);

/* archive.c. Writes beside a module's tables what they do not say, for who finds them without the
 * file. */
void symbol_archive_note(const struct symbol_module *module);
/* Keeps a module that was asked about for a while after the last one lets go of it: its tables stay
 * open, and what was demangled stays so, from one request to the next. */
void symbol_archive_keep(struct symbol_module *module);
void symbol_archive_let_go(struct symbol_module *module);
void symbol_archive_stop(struct symbol_store *store); /* lets go of what is kept */
/* Sets the store's debug_roots: uploads first, then `roots` (NULL = the usual). False when out of
 * memory. */
bool symbol_archive_roots(struct symbol_store *store, const char *cache_dir, const char *roots);
/* Another debug file of that build-id has come: what was found missing is looked for again. */
void symbol_archive_refresh(struct symbol_store *store, const char *build_id);

#endif
