/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/perf_map.h"

#include "service/symbol/locate.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINES     (4u << 20)
#define MAX_CODE_SIZE (1ull << 30)

/* --- opening -----------------------------------------------------------------------------------
 */

/* The process's pid in its innermost namespace: the last number of "NSpid:". */
static pid_t inner_pid(pid_t pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    char *at = strstr(text, "\nNSpid:");
    if (!at)
        return pid;
    at += strlen("\nNSpid:");
    at[strcspn(at, "\n")] = 0;
    for (pid_t inner = pid;;) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at)
            return inner;
        inner = (pid_t)value;
        at = end;
    }
}

/* `root` is the process whose root is meant, 0 = ours. */
static int open_map(pid_t root, pid_t named, uid_t owner) {
    char path[64];
    struct stat about;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)named);
    int fd = symbol_open_no_link(root, path);
    if (fd >= 0 && (fstat(fd, &about) != 0 || about.st_uid != owner)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int symbol_perf_map_open(pid_t pid) {
    char process[64];
    struct stat about;
    snprintf(process, sizeof process, "/proc/%d", (int)pid);
    if (stat(process, &about) != 0)
        return -1;
    int fd = open_map(pid, inner_pid(pid), about.st_uid);
    return fd >= 0 ? fd : open_map(0, pid, about.st_uid);
}

sonde_err symbol_perf_map_load(int fd, struct sonde_buf *text) {
    struct symbol_elf_input input;
    if (!symbol_elf_input_of_file(fd, &input))
        return SONDE_IO;
    uint64_t len = input.size < SYMBOL_PERF_MAP_BYTES ? input.size : SYMBOL_PERF_MAP_BYTES;
    char *to = sonde_buf_extend(text, len);
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    return symbol_elf_read(&input, input.size - len, to, len) ? SONDE_OK : SONDE_IO;
}

/* --- lines -------------------------------------------------------------------------------------
 */

struct line {
    uint64_t start, end;
    uint32_t name, name_len; /* in the text */
};

/* A hexadecimal number with or without 0x; NULL when there is none, or it is too long. */
static const char *parse_hex(const char *at, const char *end, uint64_t *value) {
    const char *first;
    if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
        at += 2;
    *value = 0;
    for (first = at; at < end && isxdigit((unsigned char)*at); at++) {
        unsigned digit = isdigit((unsigned char)*at) ? (unsigned)(*at - '0')
                                                     : (unsigned)(tolower(*at) - 'a' + 10);
        *value = *value << 4 | digit;
    }
    return at > first && at - first <= 16 ? at : NULL;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static bool parse_map_line(const char *text, const char *at, const char *end, struct line *line) {
    uint64_t start, size;
    const char *next = parse_hex(at, end, &start);
    if (!next || next == end || (*next != ' ' && *next != '\t'))
        return false;
    next = parse_hex(skip_blanks(next, end), end, &size);
    if (!next || next == end || (*next != ' ' && *next != '\t'))
        return false;
    next = skip_blanks(next, end);
    while (end > next && isspace((unsigned char)end[-1]))
        end--;
    if (start == 0 || size == 0 || size > MAX_CODE_SIZE || size > UINT64_MAX - start || next == end)
        return false;
    *line = (struct line){start, start + size, (uint32_t)(next - text), (uint32_t)(end - next)};
    return true;
}

/* --- painting ----------------------------------------------------------------------------------
 */

/* Lines by start; the newest of those open at a place is on top of a heap. `order` of a line is its
 * place in the file. */
struct painter {
    const struct line *lines;
    uint32_t *by_start;
    uint32_t *heap;
    uint32_t heap_count;
};

static int compare_lines(const void *left, const void *right, void *context) {
    const struct line *lines = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (lines[a].start != lines[b].start)
        return lines[a].start < lines[b].start ? -1 : 1;
    return (a > b) - (a < b);
}

static void heap_push(struct painter *painter, uint32_t line) {
    uint32_t at = painter->heap_count++;
    while (at > 0 && painter->heap[(at - 1) / 2] < line) {
        painter->heap[at] = painter->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    painter->heap[at] = line;
}

static void heap_pop(struct painter *painter) {
    uint32_t last = painter->heap[--painter->heap_count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < painter->heap_count; at = child) {
        if (child + 1 < painter->heap_count && painter->heap[child + 1] > painter->heap[child])
            child++;
        if (painter->heap[child] <= last)
            break;
        painter->heap[at] = painter->heap[child];
    }
    painter->heap[at] = last;
}

static void add(struct symbol_collection *collection, const char *text, const struct line *line,
                uint64_t start, uint64_t end) {
    if (start >= end || collection->names.len > SYMBOL_MAX_NAME_BYTES)
        return;
    struct symbol_raw item = {.start = start, .end = end, .limit = end, .is_plain = 1};
    item.name = symbol_collection_name(collection, text + line->name, line->name_len, "");
    symbol_collection_add(collection, item);
}

/* Everything from *at up to `until`: each stretch goes to the newest line that covers it. */
static void paint(struct painter *painter, const char *text, uint64_t *at, uint64_t until,
                  struct symbol_collection *collection) {
    while (painter->heap_count) {
        const struct line *top = &painter->lines[painter->heap[0]];
        uint64_t end = top->end < until ? top->end : until;
        add(collection, text, top, *at, end);
        if (end > *at)
            *at = end;
        if (top->end > until)
            return;
        heap_pop(painter);
    }
    *at = until;
}

static sonde_err paint_all(const struct line *lines, uint32_t count, const char *text,
                           struct symbol_collection *collection) {
    struct painter painter = {.lines = lines,
                              .by_start = calloc(count + 1, sizeof(uint32_t)),
                              .heap = calloc(count + 1, sizeof(uint32_t))};
    sonde_err err = painter.by_start && painter.heap ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    uint64_t at = 0;
    if (err == SONDE_OK) {
        for (uint32_t i = 0; i < count; i++)
            painter.by_start[i] = i;
        qsort_r(painter.by_start, count, sizeof(uint32_t), compare_lines, (void *)lines);
        for (uint32_t i = 0; i < count; i++) {
            paint(&painter, text, &at, lines[painter.by_start[i]].start, collection);
            heap_push(&painter, painter.by_start[i]);
        }
        paint(&painter, text, &at, UINT64_MAX, collection);
    }
    free(painter.by_start);
    free(painter.heap);
    return err;
}

sonde_err symbol_perf_map_parse(const char *text, size_t len,
                                struct symbol_collection *collection) {
    struct line *lines = NULL;
    uint32_t count = 0, capacity = 0;
    for (const char *at = text, *end = text + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            struct line *wider = realloc(lines, capacity * sizeof *lines);
            if (!wider) {
                free(lines);
                return SONDE_OUT_OF_MEMORY;
            }
            lines = wider;
        }
        count += count < MAX_LINES && parse_map_line(text, at, stop, &lines[count]);
        at = stop + 1;
    }
    sonde_err err = paint_all(lines, count, text, collection);
    free(lines);
    return err;
}

/* --- the kernel --------------------------------------------------------------------------------
 */

#define KERNEL_START    0xffff800000000000ull
#define KERNEL_MAX_SIZE (1u << 20) /* a label that nothing follows */

static bool add_kernel_line(const char *at, const char *end, bool *hidden,
                            struct symbol_collection *collection) {
    uint64_t address;
    const char *next = parse_hex(at, end, &address);
    if (!next || end - next < 4)
        return false;
    char type = next[1];
    next += 3;
    *hidden &= address == 0;
    if (!strchr("tTwWi", type) || address < KERNEL_START)
        return true;
    uint64_t limit =
        address > UINT64_MAX - KERNEL_MAX_SIZE ? UINT64_MAX : address + KERNEL_MAX_SIZE;
    struct symbol_raw item = {.start = address, .end = address, .limit = limit};
    item.binding = type == 'T' ? STB_GLOBAL : type == 't' ? STB_LOCAL : STB_WEAK;
    const char *tab = memchr(next, '\t', (size_t)(end - next)); /* name TAB [module] */
    size_t len = (size_t)((tab ? tab : end) - next);
    item.name = symbol_collection_name(collection, next, len, tab ? " " : "");
    if (tab) {
        collection->names.len--; /* the NUL: the module's name goes on */
        symbol_collection_name(collection, tab + 1, (size_t)(end - tab - 1), "");
    }
    symbol_collection_add(collection, item);
    return true;
}

bool symbol_kallsyms_parse(const char *text, size_t len, struct symbol_collection *collection) {
    bool hidden = true;
    for (const char *at = text, *end = text + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        add_kernel_line(at, stop, &hidden, collection);
        at = stop + 1;
    }
    return !hidden;
}
