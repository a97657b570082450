/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves addresses to function names, files and lines, in two steps.
 *
 * While the process exists, a mapping of it becomes a symbol_module. The module holds the mapped
 * file open and has its build-id and segments, so that the second step works after the process is
 * gone. Later, (module, ELF vaddr) pairs are resolved to frames, using tables that are built once
 * per file, cached on disk and mapped read-only.
 *
 * ELF files are untrusted. A worker process without privileges reads their symbols and DWARF; this
 * process only reads their headers and notes, with every read bounded. A damaged file loses its own
 * names and nothing else. Thread safety: any thread. Building a table blocks the calling thread;
 * concurrent requests for one file build it once. */
#ifndef SONDE_SERVICE_SYMBOL_SYMBOL_H
#define SONDE_SERVICE_SYMBOL_SYMBOL_H

#include "api/bytes.h"
#include "api/error.h"
#include "api/program_advice.h"
#include "service/symbol/files/file_identity.h"

#include <sys/types.h>

struct symbol_store;
struct symbol_module;
struct proc_maps;

struct symbol_options {
    const char *cache_dir;   /* for tables and uploads; NULL = no disk cache */
    uint64_t cache_bytes;    /* limit of all tables; 0 = 1 GiB; the least recently used go first */
    const char *debug_roots; /* ':'-separated; NULL = "/usr/lib/debug" */
    uint64_t upload_bytes;   /* limit of all uploads (files/files.h); 0 = 16 GiB */
    /* The program to run as a worker (worker/worker.h); "/proc/self/exe" if this program's main
     * supports it. NULL = no inlined functions, files and lines; this process reads symbols. */
    const char *worker;
    /* URLs of debuginfod servers (debuginfod/debuginfod.h), separated by blanks; NULL or "" = none.
     * Needs cache_dir and a worker whose main supports it. */
    const char *debuginfod;
};

SONDE_MUST_USE sonde_err symbol_store_create(const struct symbol_options *options,
                                             struct symbol_store **store, struct sonde_diag *diag);
/* Kills running workers and starts no more. Threads that wait for a table stop waiting. */
void symbol_store_end(struct symbol_store *store);
/* How often the names of JIT code were dropped because their owner's memory is used up. */
uint64_t symbol_jit_refused(void);
void symbol_store_destroy(struct symbol_store *store); /* after the last module was released */

/* What perf and pprof call the kernel. */
#define SYMBOL_KERNEL_PATH "[kernel.kallsyms]"

/* One executable mapping, as in /proc/PID/maps. */
struct symbol_mapping {
    uint64_t start, end, offset;
    uint32_t device_major, device_minor;
    uint64_t inode;
    uint64_t inode_generation; /* of perf's records; 0 = unknown, as in /proc/PID/maps */
    const char *path;          /* "" = anonymous; "[vdso]"; "/usr/bin/x", never with " (deleted)" */
    bool is_deleted;           /* the file had been removed or replaced when the mapping was read */
    /* The running kernel. Its addresses may lack bit 63. Never set it because a process claims it:
     * names of addresses reveal where the kernel is. */
    bool is_kernel;
    /* A shared copy of the process's mappings (locate/proc_maps.h), which is read once for many
     * calls. NULL = they are read if they are needed. */
    struct proc_maps *maps;
};

/* Opens the file behind a mapping of a live process (locate/locate.h), with the rights of the
 * calling thread (service/process). Mappings of the same file and path have the same module. If
 * there is no file, the module has no fd and resolves to no names. The caller releases it. */
SONDE_MUST_USE sonde_err symbol_module_open(struct symbol_store *store, pid_t pid,
                                            const struct symbol_mapping *mapping,
                                            struct symbol_module **module, struct sonde_diag *diag);
/* The running kernel, from /proc/kallsyms, which is read again for modules and BPF programs; a
 * vaddr is the address itself. If kallsyms shows zeros instead of addresses, nothing has a name and
 * the reason is KERNEL_HIDDEN. */
SONDE_MUST_USE sonde_err symbol_module_open_kernel(struct symbol_store *store,
                                                   struct symbol_module **module,
                                                   struct sonde_diag *diag);
void symbol_module_release(struct symbol_module *module); /* NULL is fine */

enum symbol_module_kind {
    SYMBOL_MODULE_NONE = 0,   /* no file could be opened, or anonymous memory */
    SYMBOL_MODULE_EXECUTABLE, /* ET_EXEC, or ET_DYN with an interpreter */
    SYMBOL_MODULE_LIBRARY,
    SYMBOL_MODULE_VDSO,
    SYMBOL_MODULE_KERNEL,
};

enum symbol_module_kind symbol_module_kind(const struct symbol_module *module);
/* Whether this is memory of one process without an ELF file. If it is executed, it is JIT code. */
bool symbol_module_is_memory(const struct symbol_module *module);
const char *
symbol_module_path(const struct symbol_module *module); /* as mapped, "[vdso]", "[anon]" */
const char *symbol_module_base_name(const struct symbol_module *module);
const char *
symbol_module_build_id(const struct symbol_module *module); /* lower-case hex, "" = none */
int symbol_module_fd(const struct symbol_module *module);   /* borrowed; -1 = none */
/* The key for tables that are built from the mapped file alone (files/file_identity.h). */
const char *symbol_module_file_identity(const struct symbol_module *module);
/* The debug file; borrowed; -1 = none. An upload can add it later, or replace it. */
int symbol_module_debug_fd(const struct symbol_module *module);
/* The key for tables that are also built from that debug file; false if there is none. */
bool symbol_module_debug_identity(const struct symbol_module *module,
                                  char identity[FILE_IDENTITY_MAX]);
/* Sets *bias to runtime address - ELF vaddr for a mapping of this module. False if the mapping
 * matches no executable segment. */
bool symbol_module_bias(const struct symbol_module *module, const struct symbol_mapping *mapping,
                        uint64_t *bias);

/* Why a module has no names, or only some. */
enum symbol_reason {
    SYMBOL_REASON_NONE = 0,
    SYMBOL_REASON_ANONYMOUS,       /* anonymous memory without a perf map or jitdump */
    SYMBOL_REASON_NO_FILE,         /* the file could not be opened */
    SYMBOL_REASON_BINARY_REPLACED, /* the file was deleted, or its path is another file now */
    SYMBOL_REASON_NOT_ELF,
    SYMBOL_REASON_OTHER_MACHINE, /* an ELF file that is not for x86-64 or arm64 */
    SYMBOL_REASON_STRIPPED,      /* only exported functions have names */
    SYMBOL_REASON_KERNEL_HIDDEN, /* kptr_restrict shows zeros */
    SYMBOL_REASON_MEMORY,        /* JIT code; its names exceed the memory of the process's user */
};
const char *symbol_reason_text(enum symbol_reason reason); /* "BINARY_REPLACED"; "" for none */

/* Whether its line table is being built; cheap. */
bool symbol_module_is_converting(struct symbol_module *module);
/* Why the last worker run failed, as a sentence; false if it did not. */
#define SYMBOL_SENTENCE 160
bool symbol_module_failure(struct symbol_module *module, char text[SYMBOL_SENTENCE]);

/* Whether only its exported functions have names, or none. Builds the symbol table if needed. */
bool symbol_module_is_stripped(struct symbol_module *module);
/* Says what gives a stripped module's functions their names. False if it is not stripped. Searches
 * Debian's packages the first time, which takes some milliseconds. The text calls the module what
 * the first call did: a program's name need not be that of its file. */
bool symbol_module_advice(struct symbol_module *module, const char *name,
                          char text[PROGRAM_ADVICE]);
/* The same for an open file that is known to be stripped. */
void symbol_file_advice(int fd, const char *name, char text[PROGRAM_ADVICE]);

enum symbol_quality { SYMBOL_NONE, SYMBOL_EXPORTS_ONLY, SYMBOL_NAMES, SYMBOL_FULL };

/* Strings are in the arena of the call. */
struct symbol_frame {
    const char *name;        /* demangled, without the clone suffix; "" = unknown */
    const char *system_name; /* the linkage name; "" = unknown */
    const char *file;        /* "" = unknown */
    uint32_t line;           /* 0 = unknown */
    uint64_t offset;         /* address - start of the symbol */
};

struct symbol_query {
    struct symbol_module *module; /* NULL = no frames */
    uint64_t vaddr;               /* of a return address: minus 1 */
    /* The module's name in `place`; NULL = its file's name. Valid during the call. */
    const char *module_name;
};

struct symbol_answer {
    const struct symbol_frame *frames; /* innermost first, in the arena */
    uint32_t frame_count;              /* 0 = no name */
    enum symbol_quality quality;
    bool is_folded; /* several functions share this code */
    /* Without frames: the start of the function, as "[libx.so]+0x1230"; NULL = unknown. */
    const char *place;
    uint64_t place_offset; /* address - that start */
};

/* Finds the frames that profiles show: those of the answer or, if it only has a place, one frame
 * with the place's name, stored in *unnamed. Returns their number. */
uint32_t symbol_answer_frames(const struct symbol_answer *answer, struct symbol_frame *unnamed,
                              const struct symbol_frame **frames);

/* Writes an answer for each query without waiting for line tables. Missing line tables start to be
 * built, and the answers come from symbol tables. The only error is SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_resolve(struct symbol_store *store,
                                        const struct symbol_query *queries, size_t count,
                                        struct sonde_arena *arena, struct symbol_answer *answers);
/* The same, but waits up to wait_ms for line tables. */
SONDE_MUST_USE sonde_err symbol_resolve_wait(struct symbol_store *store,
                                             const struct symbol_query *queries, size_t count,
                                             uint32_t wait_ms, struct sonde_arena *arena,
                                             struct symbol_answer *answers);

struct symbol_place {
    uint64_t vaddr;
    const char *name; /* the linkage name; valid as long as the module */
};
/* Finds the functions of a library by their linkage names; at most `room` of them. Returns their
 * number. Libraries with more than 65,536 functions are not searched. */
size_t symbol_module_find_functions(struct symbol_module *module, const char *const *names,
                                    size_t name_count, struct symbol_place *places, size_t room);

/* --- for tests -------------------------------------------------------------------------------- */

/* The number of tables that this store has built instead of loading them from disk. */
uint64_t symbol_store_tables_built(const struct symbol_store *store);
enum symbol_reason symbol_module_reason(const struct symbol_module *module);

#endif
