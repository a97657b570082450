/* SPDX-License-Identifier: Apache-2.0
 *
 * From addresses to names, in two planes joined by file identity (shared spec: symbols).
 *
 * Normalise, while the process lives: a mapping of a target becomes a symbol_module, which holds
 * the mapped file open and knows its build-id and segments, so that it can be named after the
 * process is gone. Resolve, without the process: (module, ELF vaddr) to frames through an immutable
 * table per file, built once, cached on disk, mapped read-only.
 *
 * ELF bytes are hostile. Symbols and DWARF are read by a worker process that has given up its
 * rights; here only headers and notes are, every read bounded, so that a broken file costs its own
 * names.
 * Thread safety: any thread for everything here; building a table blocks the calling thread (call
 * from a worker), and equal concurrent requests for one file build it once. */
#ifndef SONDE_SERVICE_SYMBOL_SYMBOL_H
#define SONDE_SERVICE_SYMBOL_SYMBOL_H

#include "api/bytes.h"
#include "api/error.h"

#include <sys/types.h>

struct symbol_store;
struct symbol_module;

struct symbol_options {
    const char *cache_dir;   /* tables live here as <identity>.names; NULL = no disk cache */
    uint64_t cache_bytes;    /* bound of the directory; 0 = 1 GiB; oldest use goes first */
    const char *debug_roots; /* ':'-separated; NULL = "/usr/lib/debug" */
    uint64_t upload_bytes;   /* bound of all uploads (files.h); 0 = 16 GiB */
    /* The program that reads symbols and DWARF, started with SYMBOL_WORKER_ARGUMENT (worker.h);
     * "/proc/self/exe" for a program whose main knows it. NULL = names only, read in this process:
     * no inlined functions, files and lines. */
    const char *worker;
    /* Servers to ask for debug files that are missing (fetch.h), separated by blanks; NULL or "" =
     * none. Needs cache_dir and worker, whose main knows symbol_fetch_is_asked. */
    const char *debuginfod;
};

SONDE_MUST_USE sonde_err symbol_store_create(const struct symbol_options *options,
                                             struct symbol_store **store, struct sonde_diag *diag);
/* Ends what runs and starts nothing more: who waits for a table goes without. */
void symbol_store_end(struct symbol_store *store);
void symbol_store_destroy(struct symbol_store *store); /* after the last module was released */

/* How many tables this store has made, rather than found on disk. */
uint64_t symbol_store_tables_built(const struct symbol_store *store);

/* One executable mapping, as in /proc/PID/maps. */
struct symbol_mapping {
    uint64_t start, end, offset;
    uint32_t device_major, device_minor;
    uint64_t inode;
    const char *path; /* "" = anonymous; "[vdso]"; "/usr/bin/x (deleted)" */
};

/* Opens the file behind a mapping of a live process (the spec's order: map_files, /proc/PID/root,
 * plain path; accepted only when device and inode or the build-id fit). Equal files give the same
 * module. Never fails for want of a file: such a module has no fd and answers addresses with no
 * name. The caller releases it. */
SONDE_MUST_USE sonde_err symbol_module_open(struct symbol_store *store, pid_t pid,
                                            const struct symbol_mapping *mapping,
                                            struct symbol_module **module, struct sonde_diag *diag);
/* The running kernel, from /proc/kallsyms, once per store; vaddr is the address. Its reason is
 * KERNEL_HIDDEN when it shows zeros: then nothing has a name. */
SONDE_MUST_USE sonde_err symbol_module_open_kernel(struct symbol_store *store,
                                                   struct symbol_module **module,
                                                   struct sonde_diag *diag);
struct symbol_module *symbol_module_retain(struct symbol_module *module);
void symbol_module_release(struct symbol_module *module); /* NULL is fine */

enum symbol_module_kind {
    SYMBOL_MODULE_NONE = 0,   /* no file could be opened, or anonymous memory */
    SYMBOL_MODULE_EXECUTABLE, /* ET_EXEC, or ET_DYN with an interpreter */
    SYMBOL_MODULE_LIBRARY,
    SYMBOL_MODULE_VDSO,
    SYMBOL_MODULE_KERNEL,
};

enum symbol_module_kind symbol_module_kind(const struct symbol_module *module);
/* Memory of one process that no ELF file is behind: what a JIT compiler made, as far as anybody
 * runs it. */
bool symbol_module_is_memory(const struct symbol_module *module);
const char *
symbol_module_path(const struct symbol_module *module); /* as mapped, "[vdso]", "[anon]" */
const char *symbol_module_base_name(const struct symbol_module *module);
const char *
symbol_module_build_id(const struct symbol_module *module); /* lower-case hex, "" = none */
int symbol_module_fd(const struct symbol_module *module);   /* borrowed; -1 = none */
/* runtime address - ELF vaddr for a mapping of this module (spec: section 2). False when no segment
 * fits. */
bool symbol_module_bias(const struct symbol_module *module, const struct symbol_mapping *mapping,
                        uint64_t *bias);

/* Why a module has no names, or fewer than one would wish. */
enum symbol_reason {
    SYMBOL_REASON_NONE = 0,
    SYMBOL_REASON_ANONYMOUS,       /* no file: anonymous memory and no perf map */
    SYMBOL_REASON_NO_FILE,         /* the file could not be opened */
    SYMBOL_REASON_BINARY_REPLACED, /* deleted, or another file is at its path now */
    SYMBOL_REASON_NOT_ELF,
    SYMBOL_REASON_STRIPPED,      /* only exported functions have names */
    SYMBOL_REASON_KERNEL_HIDDEN, /* kptr_restrict shows zeros */
};
enum symbol_reason symbol_module_reason(const struct symbol_module *module);
const char *symbol_reason_text(enum symbol_reason reason); /* "BINARY_REPLACED"; "" for none */

/* Whether its full table is on the way; cheap. */
bool symbol_module_is_converting(struct symbol_module *module);
/* A sentence when the last conversion failed; false when there is nothing to say. */
#define SYMBOL_SENTENCE 160
bool symbol_module_failure(struct symbol_module *module, char text[SYMBOL_SENTENCE]);

enum symbol_quality { SYMBOL_NONE, SYMBOL_EXPORTS_ONLY, SYMBOL_NAMES, SYMBOL_FULL };

/* name and system_name live as long as the arena of the call; "" = unknown. */
struct symbol_frame {
    const char *name;        /* demangled, clone suffix folded */
    const char *system_name; /* as linked */
    const char *file;        /* "" = unknown */
    uint32_t line;           /* 0 = unknown */
    uint64_t offset;         /* of the address from the symbol's start */
};

struct symbol_query {
    struct symbol_module *module; /* NULL gives no frames */
    uint64_t vaddr; /* looked up as it is: the caller has subtracted 1 from return addresses */
};

struct symbol_answer {
    const struct symbol_frame *frames; /* innermost first, in the arena */
    uint32_t frame_count;              /* 0 = no name */
    enum symbol_quality quality;
    bool is_folded; /* several functions share this code */
    /* Without frames: "[libx.so]+0x1230", where the function begins that holds the code; NULL =
     * not known either. In the arena. */
    const char *place;
    uint64_t place_offset; /* of the address from there */
};

/* Frames as profiles show them: the answer's own, or, of a function without a name, one called by
 * its place, which is made in *unnamed. Gives their number. */
uint32_t symbol_answer_frames(const struct symbol_answer *answer, struct symbol_frame *unnamed,
                              const struct symbol_frame **frames);

/* count answers, one a query, at once: with what is there. Where a file has DWARF that nobody has
 * converted yet, names are given and the conversion begins. SONDE_OUT_OF_MEMORY is the only
 * failure. */
SONDE_MUST_USE sonde_err symbol_resolve(struct symbol_store *store,
                                        const struct symbol_query *queries, size_t count,
                                        struct sonde_arena *arena, struct symbol_answer *answers);
/* The same, but waits up to wait_ms for full tables of the queries' modules. */
SONDE_MUST_USE sonde_err symbol_resolve_wait(struct symbol_store *store,
                                             const struct symbol_query *queries, size_t count,
                                             uint32_t wait_ms, struct sonde_arena *arena,
                                             struct symbol_answer *answers);

#endif
