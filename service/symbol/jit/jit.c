/* SPDX-License-Identifier: Apache-2.0
 *
 * Names code that is in no file. For JIT code these are the process's perf map and jitdump. Both
 * files grow while the process runs, so they are read again from time to time. The result is
 * reference-counted, because lookups may still use the previous one, and the last one stays when
 * the process is gone. Where both files know an address, the jitdump wins, because it has lines.
 *
 * A user may have many processes, so what is kept counts as memory of the files' owner
 * (service/process/memory_share.h), and the files of one process are read at a time: reading them
 * takes several times as much. Names that do not fit are dropped and counted, and read again later.
 */
#include "api/base/clock.h"
#include "service/process/process_identity.h"
#include "service/symbol/jit/jit_names.h"
#include "service/symbol/jit/jitdump.h"
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROWS (4u << 20) /* of one process */
/* Bytes that are read of a perf map, if its user is neither root nor sonded's own: those at its
 * end. */
#define OTHERS_MAP_BYTES ((size_t)16 << 20)
#define CHECK_MS         10   /* between two checks whether the process is alive */
#define LOOK_MS          1000 /* between two checks of the files */
#define SEARCH_MS        5000 /* between two searches of a process's maps for a jitdump */

/* The JIT files of a process. */
struct symbol_jit_sources {
    struct stat map_stat;
    int64_t checked_ms, opened_ms, looked_ms, searched_ms; /* CLOCK_MONOTONIC; 0 = never */
    struct symbol_jitdump dump;
    struct memory_share share; /* of the dump */
    int dump_fd, map_fd;       /* -1 = not found yet */
    uid_t owner;               /* of the process */
    bool is_last;              /* the process has ended, and its files were read after that */
};

static struct lock reading;
static _Atomic uint64_t refused;

__attribute__((constructor)) static void init_lock(void) {
    lock_init(&reading, LOCK_JIT_FILES);
}

uint64_t symbol_jit_refused(void) {
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

static bool take(struct memory_share *share, size_t bytes) {
    bool has_room = memory_share_take(share, bytes);
    atomic_fetch_add_explicit(&refused, !has_room, memory_order_relaxed);
    return has_room;
}

/* --- [vsyscall] ------------------------------------------------------------------------------- */

/* Every x86-64 process has the same three entries. */
static void name_vsyscall(struct symbol_module *module) {
    static const char *const names[] = {"gettimeofday", "time", "getcpu"};
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    for (uint64_t i = 0; i < 3 && !module->jit; i++) {
        uint64_t start = 0xffffffffff600000 + i * 0x400;
        struct symbol_raw item = {.start = start, .end = start + 0x400, .limit = start + 0x400};
        item.name = symbol_collection_name(&collection, names[i], strlen(names[i]), "");
        symbol_collection_add(&collection, item);
    }
    if (!module->jit)
        module->jit = symbol_jit_build(&collection);
    module->reason = SYMBOL_REASON_NONE;
    symbol_collection_finish(&collection);
}

/* --- a process -------------------------------------------------------------------------------- */

static bool changed(const struct stat *last, const struct stat *now) {
    return now->st_size != last->st_size || now->st_ino != last->st_ino ||
           now->st_mtim.tv_sec != last->st_mtim.tv_sec ||
           now->st_mtim.tv_nsec != last->st_mtim.tv_nsec;
}

/* The names and rows that the overlay of all intervals leaves. */
struct merge {
    const char *text; /* of the perf map */
    const struct symbol_jitdump *dump;
    struct symbol_collection collection;
    struct symbol_jit_row *rows;
    uint32_t row_count, row_capacity;
    bool failed;
};

static void add_row(struct merge *merge, uint64_t address, uint32_t file, uint32_t line) {
    if (merge->row_count > 0 && merge->rows[merge->row_count - 1].address == address)
        merge->row_count--; /* the later row replaces it */
    if (merge->row_count == merge->row_capacity) {
        uint32_t capacity = merge->row_capacity ? 2 * merge->row_capacity : 1024;
        struct symbol_jit_row *rows =
            capacity <= MAX_ROWS ? realloc(merge->rows, capacity * sizeof *rows) : NULL;
        merge->failed |= !rows;
        if (!rows)
            return;
        merge->rows = rows;
        merge->row_capacity = capacity;
    }
    merge->rows[merge->row_count++] = (struct symbol_jit_row){address, file, line};
}

/* Adds the load's rows in [start, end), beginning with the row that applies at start. */
static void add_rows(struct merge *merge, const struct symbol_jitdump_load *load, uint64_t start,
                     uint64_t end) {
    uint32_t shift = symbol_jitdump_shift(merge->dump);
    const struct symbol_jitdump_row *rows = merge->dump->rows + load->first_row;
    uint32_t low = 0, high = load->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (load->start + rows[middle].offset - shift <= start)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = low > 0 ? low - 1 : 0; i < load->row_count && !merge->failed; i++) {
        uint64_t address = load->start + rows[i].offset - shift;
        if (address >= end)
            break;
        add_row(merge, address > start ? address : start, rows[i].file, rows[i].line);
    }
    add_row(merge, end, 0, 0);
}

static void on_piece(void *context, const struct symbol_interval *interval, uint64_t start,
                     uint64_t end) {
    struct merge *merge = context;
    const char *text = interval->load ? merge->dump->text.data : merge->text;
    symbol_collection_plain(&merge->collection, text + interval->name, interval->name_len, start,
                            end);
    if (interval->load && !merge->failed && merge->dump->loads[interval->load - 1].row_count > 0)
        add_rows(merge, &merge->dump->loads[interval->load - 1], start, end);
}

/* Moves the rows to jit. File names are copied, because the dump's text will grow and move. */
static void move_rows(struct merge *merge, struct symbol_jit *jit) {
    if (merge->failed || merge->row_count == 0)
        return;
    sonde_buf_append(&jit->files, merge->dump->text.data, merge->dump->text.len);
    if (jit->files.failed)
        return;
    jit->rows = merge->rows;
    jit->row_count = merge->row_count;
    merge->rows = NULL;
}

static size_t bytes_of(const struct symbol_jit *jit) {
    size_t bytes = sizeof *jit + jit->row_count * sizeof *jit->rows + jit->files.len;
    for (uint32_t i = 0; i < jit->count; i++)
        bytes += jit->tables[i].image.len + jit->tables[i].display.count * sizeof(char *);
    return bytes;
}

/* Reads the files into one table of names; NULL: they cannot be read. */
static struct symbol_jit *build_names(struct symbol_module *module, int map_fd, size_t limit) {
    struct sonde_buf text = {0};
    struct symbol_overlay overlay = {0};
    struct merge merge = {.dump = &module->sources->dump, .collection = {.quality = SYMBOL_NAMES}};
    bool good = map_fd < 0 || symbol_perf_map_load(map_fd, limit, &text) != SONDE_OK ||
                symbol_perf_map_intervals(text.data, text.len, &overlay) == SONDE_OK;
    merge.text = text.data;
    good = good && symbol_jitdump_intervals(merge.dump, &overlay) == SONDE_OK &&
           symbol_overlay_each(&overlay, on_piece, &merge) == SONDE_OK;
    struct symbol_jit *fresh = good ? symbol_jit_build(&merge.collection) : NULL;
    if (fresh)
        move_rows(&merge, fresh);
    free(merge.rows);
    symbol_collection_finish(&merge.collection);
    symbol_overlay_finish(&overlay);
    sonde_buf_finish(&text);
    return fresh;
}

/* Replaces the names that are kept. `likely` bytes are set aside first, so that files that cannot
 * be kept are not read again and again. False: the owner has no memory for them. */
static bool read_files(struct symbol_module *module, int map_fd, uid_t owner, size_t likely) {
    struct memory_share share = {.uid = owner};
    bool is_other = memory_share_is_other(owner);
    if (!take(&share, likely))
        return false;
    struct symbol_jit *fresh =
        build_names(module, map_fd, is_other ? OTHERS_MAP_BYTES : SYMBOL_PERF_MAP_BYTES);
    memory_share_finish(&share);
    if (fresh)
        fresh->share.uid = owner;
    if (fresh && !take(&fresh->share, bytes_of(fresh))) {
        symbol_jit_release(fresh);
        return false;
    }
    if (fresh) {
        symbol_jit_release(module->jit);
        module->jit = fresh;
        module->reason = SYMBOL_REASON_NONE;
    }
    return true;
}

static bool is_alive(const struct symbol_module *module) {
    return process_start_ticks(module->pid) == module->process_start;
}

static void keep_map(struct symbol_jit_sources *sources, int fd) {
    if (fd < 0)
        return;
    if (sources->map_fd >= 0)
        close(sources->map_fd);
    sources->map_fd = fd;
}

/* Opens the files of a process that is alive. They stay open, because most JIT compilers write
 * until the process ends, and then nothing leads to a dump any more. */
static void open_files(struct symbol_module *module, int64_t now_ms) {
    struct symbol_jit_sources *sources = module->sources;
    sources->opened_ms = now_ms;
    keep_map(sources, symbol_perf_map_open(module->pid, &sources->owner));
    if (sources->dump_fd >= 0 || now_ms - sources->searched_ms < SEARCH_MS)
        return;
    sources->searched_ms = now_ms;
    sources->dump_fd = symbol_jitdump_open(module->pid);
}

/* Reads what was added to the jitdump. A file that became shorter is read from the beginning. */
static bool read_dump(struct symbol_module *module) {
    struct symbol_jit_sources *sources = module->sources;
    struct elf_input input;
    struct stat info;
    if (!elf_input_of_file(sources->dump_fd, &input) || fstat(sources->dump_fd, &info) != 0)
        return false;
    if (input.size < sources->dump.at)
        symbol_jitdump_finish(&sources->dump);
    bool is_new = symbol_jitdump_read(&sources->dump, &input);
    memory_share_finish(&sources->share);
    sources->share.uid = info.st_uid;
    if (!take(&sources->share, symbol_jitdump_bytes(&sources->dump))) {
        symbol_jitdump_finish(&sources->dump);
        sources->dump.is_broken = true; /* it is not read again */
    }
    return is_new;
}

/* Reads the JIT files again if they have changed. Call it under the module's lock. */
static void refresh(struct symbol_module *module) {
    struct symbol_jit_sources *sources = module->sources;
    int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    struct stat info;
    if (sources->is_last || now_ms - sources->checked_ms < CHECK_MS)
        return;
    sources->checked_ms = now_ms;
    bool alive = is_alive(module);
    if (alive && now_ms - sources->looked_ms < LOOK_MS)
        return;
    sources->looked_ms = now_ms;
    sources->is_last = !alive;
    if (alive)
        open_files(module, now_ms);
    else if (sources->map_fd < 0)
        sources->map_fd = symbol_perf_map_open_left(module->pid, sources->owner);
    int fd = sources->map_fd;
    bool has_map = fd >= 0 && fstat(fd, &info) == 0;
    bool is_new = has_map && changed(&sources->map_stat, &info);
    if (is_new)
        sources->map_stat = info;
    lock_take(&reading);
    if (read_dump(module) || is_new) {
        uid_t owner = has_map ? info.st_uid : sources->share.uid;
        size_t likely = has_map && info.st_size > 0 ? (size_t)info.st_size : 0;
        likely = likely < OTHERS_MAP_BYTES ? likely : OTHERS_MAP_BYTES;
        if (!read_files(module, fd, owner, likely)) {
            sources->map_stat = (struct stat){0};
            module->reason = module->jit ? SYMBOL_REASON_NONE : SYMBOL_REASON_MEMORY;
        }
    }
    lock_drop(&reading);
}

void symbol_jit_sources_destroy(struct symbol_jit_sources *sources) {
    if (!sources)
        return;
    symbol_jitdump_finish(&sources->dump);
    memory_share_finish(&sources->share);
    if (sources->dump_fd >= 0)
        close(sources->dump_fd);
    if (sources->map_fd >= 0)
        close(sources->map_fd);
    free(sources);
}

static bool has_sources(struct symbol_module *module) {
    if (module->sources)
        return true;
    module->sources = calloc(1, sizeof *module->sources);
    if (module->sources)
        *module->sources =
            (struct symbol_jit_sources){.dump_fd = -1, .map_fd = -1, .owner = (uid_t)-1};
    return module->sources != NULL;
}

void symbol_jit_watch(struct symbol_module *module) {
    int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    lock_take(&module->lock);
    if (has_sources(module) && now_ms - module->sources->opened_ms >= LOOK_MS && is_alive(module))
        open_files(module, now_ms);
    lock_drop(&module->lock);
}

struct symbol_jit *symbol_module_jit(struct symbol_module *module, uint64_t address) {
    lock_take(&module->lock);
    if (module->kind == SYMBOL_MODULE_KERNEL)
        symbol_kernel_read(module, address);
    else if (strcmp(module->path, "[vsyscall]") == 0)
        name_vsyscall(module);
    else if (has_sources(module))
        refresh(module);
    struct symbol_jit *jit = module->jit;
    if (jit)
        jit->references++;
    lock_drop(&module->lock);
    return jit;
}
