/* SPDX-License-Identifier: Apache-2.0
 *
 * pagemap has 8 bytes for each page of the address space: flags, and for those who have
 * CAP_SYS_ADMIN the number of the page frame. Two things can be seen by that number only:
 *
 *   - A zero page, which reading untouched memory maps, is the frame that such a read of ours maps.
 *     Without frames, pages that are mapped more than once may be zero pages, or memory that a fork
 *     shares. RssAnon counts the latter only, so its difference from our count decides.
 *   - A huge page is a run of 512 frames which /proc/kpageflags says is one. Before Linux 6.11,
 *     only kpageflags also says that it belongs to a file, or is the huge zero page. */
#include "service/host/resident/resident.h"

#include "api/base/array.h"
#include "api/text/maps_line.h"
#include "service/host/processes/process_text.h"
#include "service/process/live_thread.h"
#include "service/process/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRY_PRESENT   (1ull << 63)
#define ENTRY_SWAPPED   (1ull << 62)
#define ENTRY_FILE      (1ull << 61) /* or shared memory */
#define ENTRY_EXCLUSIVE (1ull << 56)
#define ENTRY_FRAME     ((1ull << 55) - 1)

#define ENTRIES    65536u /* read at once */
#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage"

struct scan {
    struct resident_set *set;
    int fd, flags_fd;
    uint64_t zero_frame; /* 0 = frames are not shown */
    size_t max_chunks;
    uint64_t max_pages, left;
    uint64_t *entries;
    bool drops_shared; /* anonymous pages that are mapped more than once are zero pages */
    bool is_shared;    /* the mapping; before Linux 6.11, its huge pages lack ENTRY_FILE */
    uint64_t anonymous, shared;
    /* The kind of what is not anonymous in this mapping; RESIDENT_KINDS: no file is mapped, so it
     * is the huge zero page. */
    enum resident_kind mapped;
    uint64_t number; /* of the chunk that is being collected */
    struct resident_chunk open[RESIDENT_KINDS];
    uint64_t first_frame;
    uint32_t run; /* frames in a row since the first page of the chunk */
};

int resident_open(pid_t pid) {
    return process_file_open(PROCESS_PAGEMAP, pid, 0, 0);
}

void resident_finish(struct resident_set *set) {
    free(set->chunks);
    *set = (struct resident_set){0};
}

/* --- chunks ----------------------------------------------------------------------------------- */

static bool has_any(const struct resident_chunk *chunk) {
    uint64_t any = 0;
    for (size_t i = 0; i < RESIDENT_WORDS; i++)
        any |= chunk->pages[i] | chunk->swapped[i];
    return any != 0;
}

/* What kpageflags says about a page frame; 0 = it is not readable. */
static uint64_t flags_of(const struct scan *scan, uint64_t frame) {
    uint64_t flags = 0;
    off_t at = (off_t)(frame * sizeof flags);
    if (scan->flags_fd < 0 || pread(scan->flags_fd, &flags, sizeof flags, at) != sizeof flags)
        return 0;
    return flags;
}

/* False: the chunk is the huge zero page. */
static bool check_huge(const struct scan *scan, struct resident_chunk *chunk) {
    if (scan->run != RESIDENT_PAGES || scan->first_frame % RESIDENT_PAGES != 0)
        return true;
    uint64_t flags = flags_of(scan, scan->first_frame);
    chunk->is_huge = (flags >> KPF_THP | flags >> KPF_HUGE) & 1;
    if (chunk->is_huge && !(flags >> KPF_ANON & 1) && scan->mapped != RESIDENT_KINDS)
        chunk->kind = scan->mapped;
    return !(flags >> KPF_ZERO_PAGE & 1);
}

static sonde_err push(const struct scan *scan, const struct resident_chunk *chunk) {
    struct resident_set *set = scan->set;
    if (set->count >= scan->max_chunks) {
        set->skipped_bytes += RESIDENT_PAGES * set->page_bytes;
        return SONDE_OK;
    }
    if (!array_room(&set->chunks, &set->capacity, set->count, 1))
        return SONDE_OUT_OF_MEMORY;
    set->chunks[set->count++] = *chunk;
    return SONDE_OK;
}

static sonde_err flush(struct scan *scan) {
    sonde_err err = SONDE_OK;
    for (size_t kind = 0; kind < RESIDENT_KINDS && !err; kind++) {
        struct resident_chunk *chunk = &scan->open[kind];
        chunk->number = scan->number;
        chunk->kind = (enum resident_kind)kind;
        if (has_any(chunk) && (kind != RESIDENT_ANONYMOUS || check_huge(scan, chunk)))
            err = push(scan, chunk);
        *chunk = (struct resident_chunk){0};
    }
    scan->run = 0;
    return err;
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool is_zero_page(struct scan *scan, uint64_t entry) {
    bool is_shared = !(entry & ENTRY_EXCLUSIVE);
    if (scan->zero_frame)
        return (entry & ENTRY_FRAME) == scan->zero_frame;
    scan->anonymous++;
    scan->shared += is_shared;
    return is_shared && scan->drops_shared;
}

static void follow_run(struct scan *scan, uint32_t at, uint64_t frame) {
    if (at == 0)
        scan->first_frame = frame;
    if (at == scan->run && frame && frame == scan->first_frame + at)
        scan->run++;
}

static void take_page(struct scan *scan, uint32_t at, uint64_t entry) {
    bool is_anonymous = !(entry & ENTRY_FILE) && !scan->is_shared;
    if (!is_anonymous && scan->mapped == RESIDENT_KINDS)
        return;
    struct resident_chunk *chunk = &scan->open[is_anonymous ? RESIDENT_ANONYMOUS : scan->mapped];
    uint64_t bit = 1ull << at % 64;
    if (!(entry & ENTRY_PRESENT)) {
        chunk->swapped[at / 64] |= bit;
        return;
    }
    if (is_anonymous && is_zero_page(scan, entry))
        return;
    chunk->pages[at / 64] |= bit;
    if (is_anonymous)
        follow_run(scan, at, entry & ENTRY_FRAME);
}

static sonde_err take_entries(struct scan *scan, uint64_t page, size_t count) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < count && !err; i++, page++) {
        if (page / RESIDENT_PAGES != scan->number) {
            err = flush(scan);
            scan->number = page / RESIDENT_PAGES;
        }
        if (scan->entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED))
            take_page(scan, (uint32_t)(page % RESIDENT_PAGES), scan->entries[i]);
    }
    return err;
}

/* --- mappings --------------------------------------------------------------------------------- */

static bool begins_with(const struct sonde_maps_line *line, const char *text) {
    size_t len = strlen(text);
    return line->path_len >= len && memcmp(line->path, text, len) == 0;
}

/* The kernel's own file system for shared memory is device 0:1. */
static enum resident_kind kind_of(const struct sonde_maps_line *line) {
    bool is_shared =
        begins_with(line, "/dev/shm/") || (line->device_major == 0 && line->device_minor == 1);
    if (line->inode == 0)
        return RESIDENT_KINDS;
    return is_shared ? RESIDENT_SHARED : RESIDENT_FILE;
}

static sonde_err scan_mapping(struct scan *scan, const struct sonde_maps_line *line) {
    uint64_t page = line->start / scan->set->page_bytes, end = line->end / scan->set->page_bytes;
    sonde_err err = SONDE_OK;
    if (end - page > scan->left) { /* a smaller one may fit */
        scan->set->skipped_bytes += (end - page) * scan->set->page_bytes;
        return SONDE_OK;
    }
    scan->left -= end - page;
    scan->mapped = kind_of(line);
    scan->is_shared = line->is_shared;
    while (page < end && !err) {
        size_t count = end - page < ENTRIES ? (size_t)(end - page) : ENTRIES;
        ssize_t bytes = pread(scan->fd, scan->entries, count * sizeof *scan->entries,
                              (off_t)(page * sizeof *scan->entries));
        if (bytes < (ssize_t)sizeof *scan->entries)
            break; /* the kernel's own, or the program has ended */
        count = (size_t)bytes / sizeof *scan->entries;
        err = take_entries(scan, page, count);
        page += count;
    }
    return err ? err : flush(scan);
}

/* RSS is without pages of MAP_HUGETLB. */
static bool is_of_interest(const struct sonde_maps_line *line) {
    bool is_reserved = !line->is_readable && !line->is_writable && !line->is_executable;
    return !is_reserved && !begins_with(line, "/anon_hugepage") &&
           line->start < (uint64_t)INT64_MAX / 2;
}

static sonde_err scan_mappings(struct scan *scan, FILE *maps) {
    char *text = NULL;
    size_t capacity = 0;
    ssize_t len;
    sonde_err err = SONDE_OK;
    while (!err && (len = getline(&text, &capacity, maps)) > 0) {
        struct sonde_maps_line line;
        if (sonde_maps_line_parse(text, (size_t)len, &line) && is_of_interest(&line))
            err = scan_mapping(scan, &line);
    }
    free(text);
    return err;
}

/* The pagemap of a program that has ended reads as empty, even where nothing can be mapped. */
static bool is_alive(int fd) {
    uint64_t entry;
    return pread(fd, &entry, sizeof entry, 0) == sizeof entry;
}

/* Reads all mappings. A program that ends meanwhile, or execs, leaves a part of the set. */
static sonde_err scan_all(struct scan *scan, pid_t pid) {
    int fd = process_file_open(PROCESS_MAPS, pid, 0, 0);
    FILE *maps = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!maps && fd >= 0)
        close(fd);
    if (!maps)
        return fd == -ENOENT || fd == -ESRCH ? SONDE_TARGET_GONE : SONDE_IO;
    scan->left = scan->max_pages;
    scan->set->count = 0;
    scan->set->skipped_bytes = 0;
    scan->anonymous = scan->shared = 0;
    sonde_err err = scan_mappings(scan, maps);
    fclose(maps);
    return !err && !is_alive(scan->fd) ? SONDE_TARGET_GONE : err;
}

/* --- looks ------------------------------------------------------------------------------------ */

static bool read_word(const char *path, char *text, size_t capacity) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, capacity - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len > 0;
}

/* The pages that one fault of anonymous memory can bring, apart from a huge page: the largest of
 * the smaller sizes of transparent huge pages that are enabled. */
static uint32_t find_fault_pages(uint64_t page_bytes) {
    char text[64], path[96];
    bool is_on = read_word(HUGE_PAGES "/enabled", text, sizeof text) && !strstr(text, "[never]");
    for (uint32_t pages = RESIDENT_PAGES / 2; pages > 1; pages /= 2) {
        snprintf(path, sizeof path, HUGE_PAGES "/hugepages-%llukB/enabled",
                 (unsigned long long)(pages * page_bytes / 1024));
        if (!read_word(path, text, sizeof text) || strstr(text, "[never]"))
            continue;
        if (is_on || !strstr(text, "[inherit]"))
            return pages;
    }
    return 1;
}

/* The frame of the zero page; 0 = frames are not shown to us. */
static uint64_t find_zero_frame(uint64_t page_bytes) {
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    volatile uint8_t *page = mmap(NULL, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd >= 0 && page != MAP_FAILED) {
        (void)*page;
        off_t at = (off_t)((uintptr_t)page / page_bytes * sizeof entry);
        if (pread(fd, &entry, sizeof entry, at) != sizeof entry)
            entry = 0;
    }
    if (page != MAP_FAILED)
        munmap((void *)(uintptr_t)page, page_bytes);
    if (fd >= 0)
        close(fd);
    return entry & ENTRY_PRESENT ? entry & ENTRY_FRAME : 0;
}

static int64_t read_rss_anon(pid_t pid) {
    char text[8192];
    size_t len = process_file_read("/proc", process_live_thread(pid), "status", text, sizeof text);
    const char *found = len ? strstr(text, "\nRssAnon:") : NULL;
    return found ? (int64_t)strtoull(found + sizeof "\nRssAnon:" - 1, NULL, 10) * 1024 : -1;
}

/* Whether most of the anonymous pages that are mapped more than once are zero pages. */
static bool are_zero_pages(const struct scan *scan) {
    int64_t rss_pages = scan->set->rss_anon / (int64_t)scan->set->page_bytes;
    int64_t uncounted = (int64_t)scan->anonymous - rss_pages;
    return !scan->zero_frame && scan->set->rss_anon >= 0 && scan->shared > 0 &&
           uncounted > (int64_t)(scan->shared / 2);
}

/* The set stays as it is for minutes. */
static void shrink(struct resident_set *set) {
    struct resident_chunk *chunks =
        set->count ? realloc(set->chunks, set->count * sizeof *chunks) : NULL;
    if (!chunks)
        return;
    set->chunks = chunks;
    set->capacity = set->count;
}

sonde_err resident_read_limited(int fd, pid_t pid, size_t chunks, uint64_t pages,
                                struct resident_set *set) {
    *set = (struct resident_set){.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
    struct scan scan = {.set = set,
                        .fd = fd,
                        .flags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC),
                        .max_chunks = chunks,
                        .max_pages = pages,
                        .zero_frame = find_zero_frame(set->page_bytes),
                        .entries = malloc(ENTRIES * sizeof *scan.entries)};
    set->knows_huge = scan.zero_frame && scan.flags_fd >= 0;
    set->rss_anon = read_rss_anon(pid);
    set->fault_pages = find_fault_pages(set->page_bytes);
    sonde_err err = scan.entries ? scan_all(&scan, pid) : SONDE_OUT_OF_MEMORY;
    if (!err && are_zero_pages(&scan)) {
        scan.drops_shared = true;
        err = scan_all(&scan, pid);
    }
    shrink(set);
    if (scan.flags_fd >= 0)
        close(scan.flags_fd);
    free(scan.entries);
    return err;
}

sonde_err resident_read(int fd, pid_t pid, struct resident_set *set) {
    return resident_read_limited(fd, pid, RESIDENT_MAX_CHUNKS, RESIDENT_MAX_PAGES, set);
}
