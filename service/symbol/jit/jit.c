/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code that no file holds: a process's JIT code by its perf map and its jitdump, and the
 * kernel. Both files grow while the process runs, so they are looked at again; who still uses what
 * they said before keeps it alive. What was read last stays when the process is gone. Where both
 * know an address the jitdump is right: it has lines. */
#include "service/symbol/jit/jitdump.h"
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW         (UINT32_MAX - 16)
#define MAX_WINDOWS    64
#define KALLSYMS_LIMIT ((size_t)64 << 20)
#define MAX_ROWS       (4u << 20) /* of one process */
#define LOOK_MS        1000       /* between two looks at the files */
#define SEARCH_MS      5000       /* between two searches of a process's maps for a jitdump */

/* What is known of a process's files. */
struct symbol_jit_sources {
    struct stat map_stat;
    struct timespec looked, searched;
    struct symbol_jitdump dump;
    int dump_fd; /* -1 = none was found yet */
};

void symbol_jit_release(struct symbol_jit *jit) {
    if (!jit || --jit->references > 0)
        return;
    for (uint32_t i = 0; i < jit->count; i++)
        symbol_table_finish(&jit->tables[i]);
    free(jit->tables);
    free(jit->rows);
    sonde_buf_finish(&jit->files);
    free(jit);
}

const char *symbol_jit_line(const struct symbol_jit *jit, uint64_t address, uint32_t *line) {
    uint32_t low = 0, high = jit->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (jit->rows[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct symbol_jit_row *row = low > 0 ? &jit->rows[low - 1] : NULL;
    if (!row || row->line == 0)
        return NULL;
    *line = row->line;
    return jit->files.data + row->file;
}

struct symbol_table *symbol_jit_table(struct symbol_jit *jit, uint64_t address) {
    for (uint32_t i = jit->count; i > 0; i--)
        if (jit->tables[i - 1].names.header->base <= address)
            return &jit->tables[i - 1];
    return NULL;
}

/* --- building ----------------------------------------------------------------------------------
 */

/* Takes the collection's names for one window of its items. */
static bool build_window(const struct symbol_collection *all, size_t first, size_t count,
                         struct symbol_table *table) {
    struct symbol_collection part = *all;
    struct sonde_buf image = {0};
    part.items = all->items + first;
    part.count = count;
    bool good = symbol_names_build(&part, "memory", 0, &image) == SONDE_OK;
    table->image.bytes = sonde_buf_take(&image, &table->image.len);
    good = good && table->image.bytes &&
           symbol_names_open(table->image.bytes, table->image.len, NULL, true, &table->names) ==
               SONDE_OK &&
           symbol_shown_init(&table->shown, table->names.header->symbol_count) == SONDE_OK;
    sonde_buf_finish(&image);
    return good;
}

static int compare_starts(const void *left, const void *right) {
    const struct symbol_raw *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

/* One table per stretch of addresses that 32 bits can hold. */
static struct symbol_jit *build(struct symbol_collection *collection) {
    struct symbol_jit *jit = calloc(1, sizeof *jit);
    struct symbol_table *tables = calloc(MAX_WINDOWS, sizeof *tables);
    if (!jit || !tables) {
        free(jit);
        free(tables);
        return NULL;
    }
    *jit = (struct symbol_jit){.references = 1, .tables = tables};
    if (collection->count > 1)
        qsort(collection->items, collection->count, sizeof *collection->items, compare_starts);
    for (size_t at = 0; at < collection->count && jit->count < MAX_WINDOWS;) {
        size_t end = at;
        while (end < collection->count &&
               collection->items[end].end - collection->items[at].start < WINDOW)
            end++;
        end = end > at ? end : at + 1;
        struct symbol_table *table = &jit->tables[jit->count++];
        if (!build_window(collection, at, end - at, table)) {
            symbol_table_finish(table);
            jit->count--;
            break;
        }
        at = end;
    }
    return jit;
}

/* --- the kernel --------------------------------------------------------------------------------
 */

static bool read_kallsyms(struct sonde_buf *text) {
    int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    text->limit = KALLSYMS_LIMIT;
    ssize_t got = fd >= 0 ? 1 : -1;
    while (got > 0 && !text->failed) {
        char piece[65536];
        got = read(fd, piece, sizeof piece);
        if (got > 0)
            sonde_buf_append(text, piece, (size_t)got);
    }
    if (fd >= 0)
        close(fd);
    return got == 0 && text->len > 0 && !text->failed;
}

static void read_kernel(struct symbol_module *module) {
    struct sonde_buf text = {0};
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    if (module->jit || module->reason == SYMBOL_REASON_KERNEL_HIDDEN)
        return;
    module->reason = SYMBOL_REASON_KERNEL_HIDDEN;
    if (read_kallsyms(&text) && symbol_kallsyms_parse(text.data, text.len, &collection)) {
        module->jit = build(&collection);
        module->reason = SYMBOL_REASON_NONE;
    }
    symbol_collection_finish(&collection);
    sonde_buf_finish(&text);
}

/* --- [vsyscall] --------------------------------------------------------------------------------
 */

/* The same three entries in every x86-64 process. */
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
        module->jit = build(&collection);
    module->reason = SYMBOL_REASON_NONE;
    symbol_collection_finish(&collection);
}

/* --- a process ---------------------------------------------------------------------------------
 */

static bool is_early(const struct timespec *last, const struct timespec *now, long ms) {
    return last->tv_sec != 0 &&
           (now->tv_sec - last->tv_sec) * 1000 + (now->tv_nsec - last->tv_nsec) / 1000000 < ms;
}

static bool changed(const struct stat *last, const struct stat *now) {
    return now->st_size != last->st_size || now->st_ino != last->st_ino ||
           now->st_mtim.tv_sec != last->st_mtim.tv_sec ||
           now->st_mtim.tv_nsec != last->st_mtim.tv_nsec;
}

/* Stretches on their way into tables and rows. */
struct painting {
    const char *text; /* of the perf map */
    const struct symbol_jitdump *dump;
    struct symbol_collection collection;
    struct symbol_jit_row *rows;
    uint32_t row_count, row_capacity;
    bool failed;
};

static void add_row(struct painting *painting, uint64_t address, uint32_t file, uint32_t line) {
    if (painting->row_count > 0 && painting->rows[painting->row_count - 1].address == address)
        painting->row_count--; /* the later one counts */
    if (painting->row_count == painting->row_capacity) {
        uint32_t capacity = painting->row_capacity ? 2 * painting->row_capacity : 1024;
        struct symbol_jit_row *rows =
            capacity <= MAX_ROWS ? realloc(painting->rows, capacity * sizeof *rows) : NULL;
        painting->failed |= !rows;
        if (!rows)
            return;
        painting->rows = rows;
        painting->row_capacity = capacity;
    }
    painting->rows[painting->row_count++] = (struct symbol_jit_row){address, file, line};
}

/* The load's rows that lie in [start, end), the one that reaches into it first. */
static void add_rows(struct painting *painting, const struct symbol_jitdump_load *load,
                     uint64_t start, uint64_t end) {
    uint32_t shift = symbol_jitdump_shift(painting->dump);
    const struct symbol_jitdump_row *rows = painting->dump->rows + load->first_row;
    uint32_t low = 0, high = load->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (load->start + rows[middle].offset - shift <= start)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = low > 0 ? low - 1 : 0; i < load->row_count && !painting->failed; i++) {
        uint64_t address = load->start + rows[i].offset - shift;
        if (address >= end)
            break;
        add_row(painting, address > start ? address : start, rows[i].file, rows[i].line);
    }
    add_row(painting, end, 0, 0);
}

static void on_stretch(void *context, const struct symbol_range *range, uint64_t start,
                       uint64_t end) {
    struct painting *painting = context;
    const char *text = range->load ? painting->dump->text.data : painting->text;
    symbol_collection_plain(&painting->collection, text + range->name, range->name_len, start, end);
    if (range->load && !painting->failed && painting->dump->loads[range->load - 1].row_count > 0)
        add_rows(painting, &painting->dump->loads[range->load - 1], start, end);
}

/* Takes the rows; the files' names are copied, for the dump goes on growing. */
static void give_rows(struct painting *painting, struct symbol_jit *jit) {
    if (painting->failed || painting->row_count == 0)
        return;
    sonde_buf_append(&jit->files, painting->dump->text.data, painting->dump->text.len);
    if (jit->files.failed)
        return;
    jit->rows = painting->rows;
    jit->row_count = painting->row_count;
    painting->rows = NULL;
}

static void read_files(struct symbol_module *module, int map_fd) {
    struct sonde_buf text = {0};
    struct symbol_ranges ranges = {0};
    struct painting painting = {.dump = &module->sources->dump,
                                .collection = {.quality = SYMBOL_NAMES}};
    bool good = map_fd < 0 || symbol_perf_map_load(map_fd, &text) != SONDE_OK ||
                symbol_perf_map_ranges(text.data, text.len, &ranges) == SONDE_OK;
    painting.text = text.data;
    good = good && symbol_jitdump_ranges(painting.dump, &ranges) == SONDE_OK &&
           symbol_ranges_paint(&ranges, on_stretch, &painting) == SONDE_OK;
    struct symbol_jit *fresh = good ? build(&painting.collection) : NULL;
    if (fresh) {
        give_rows(&painting, fresh);
        symbol_jit_release(module->jit);
        module->jit = fresh;
        module->reason = SYMBOL_REASON_NONE;
    }
    free(painting.rows);
    symbol_collection_finish(&painting.collection);
    symbol_ranges_finish(&ranges);
    sonde_buf_finish(&text);
}

/* A file that became shorter, or another one at its place, is read from its beginning. */
static bool dump_has_grown(struct symbol_module *module, const struct timespec *now) {
    struct symbol_jit_sources *sources = module->sources;
    struct elf_input input;
    if (sources->dump_fd < 0) {
        if (is_early(&sources->searched, now, SEARCH_MS))
            return false;
        sources->searched = *now;
        sources->dump_fd = symbol_jitdump_open(module->pid);
    }
    if (!elf_input_of_file(sources->dump_fd, &input))
        return false;
    if (input.size < sources->dump.at)
        symbol_jitdump_finish(&sources->dump);
    return symbol_jitdump_read(&sources->dump, &input);
}

/* Under the module's lock. */
static void look_again(struct symbol_module *module) {
    struct symbol_jit_sources *sources = module->sources;
    struct timespec now;
    struct stat about;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (is_early(&sources->looked, &now, LOOK_MS))
        return;
    sources->looked = now;
    if (symbol_process_start(module->pid) != module->process_start)
        return; /* gone, or another process by now */
    int fd = symbol_perf_map_open(module->pid);
    bool is_new = fd >= 0 && fstat(fd, &about) == 0 && changed(&sources->map_stat, &about);
    if (is_new)
        sources->map_stat = about;
    if (dump_has_grown(module, &now) || is_new)
        read_files(module, fd);
    if (fd >= 0)
        close(fd);
}

void symbol_jit_sources_destroy(struct symbol_jit_sources *sources) {
    if (!sources)
        return;
    symbol_jitdump_finish(&sources->dump);
    if (sources->dump_fd >= 0)
        close(sources->dump_fd);
    free(sources);
}

static bool has_sources(struct symbol_module *module) {
    if (module->sources)
        return true;
    module->sources = calloc(1, sizeof *module->sources);
    if (module->sources)
        module->sources->dump_fd = -1;
    return module->sources != NULL;
}

struct symbol_jit *symbol_module_jit(struct symbol_module *module) {
    lock_take(&module->lock);
    if (module->kind == SYMBOL_MODULE_KERNEL)
        read_kernel(module);
    else if (strcmp(module->path, "[vsyscall]") == 0)
        name_vsyscall(module);
    else if (has_sources(module))
        look_again(module);
    struct symbol_jit *jit = module->jit;
    if (jit)
        jit->references++;
    lock_drop(&module->lock);
    return jit;
}
