/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/locate/proc_maps.h"

#include "api/base/array.h"
#include "api/text/maps_line.h"
#include "service/locks.h"
#include "service/process/process_file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line in the copy; its path is at `path` in the texts. */
struct kept_line {
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor, path;
    bool is_executable, is_deleted;
};

struct proc_maps {
    _Atomic uint32_t refs;
    pid_t pid;
    struct lock lock; /* while the copy is read; afterwards nothing changes */
    uint32_t reads;
    struct kept_line *lines;
    uint32_t count, capacity;
    struct sonde_buf paths;
};

bool proc_maps_parse(char *text, struct proc_maps_line *line) {
    struct sonde_maps_line fields;
    size_t len = strcspn(text, "\n");
    if (!sonde_maps_line_parse(text, len, &fields))
        return false;
    size_t path_len = sonde_maps_path_len(fields.path, fields.path_len);
    text[fields.path - text + (ptrdiff_t)path_len] = 0;
    line->is_executable = fields.is_executable;
    line->mapping = (struct symbol_mapping){
        .start = fields.start,
        .end = fields.end,
        .offset = fields.offset,
        .device_major = fields.device_major,
        .device_minor = fields.device_minor,
        .inode = fields.inode,
        .path = fields.path,
        .is_deleted = path_len < fields.path_len,
    };
    return true;
}

FILE *proc_maps_open(pid_t pid) {
    int fd = process_file_open(PROCESS_MAPS, pid, 0, 0);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

struct proc_maps *proc_maps_create(pid_t pid) {
    struct proc_maps *maps = calloc(1, sizeof *maps);
    if (!maps)
        return NULL;
    maps->refs = 1;
    maps->pid = pid;
    lock_init(&maps->lock, LOCK_PROC_MAPS);
    return maps;
}

struct proc_maps *proc_maps_retain(struct proc_maps *maps) {
    if (maps)
        atomic_fetch_add_explicit(&maps->refs, 1, memory_order_relaxed);
    return maps;
}

void proc_maps_release(struct proc_maps *maps) {
    if (!maps || atomic_fetch_sub_explicit(&maps->refs, 1, memory_order_acq_rel) != 1)
        return;
    lock_finish(&maps->lock);
    sonde_buf_finish(&maps->paths);
    free(maps->lines);
    free(maps);
}

uint32_t proc_maps_reads(const struct proc_maps *maps) {
    return maps->reads;
}

/* Neighbouring mappings mostly have the same path, which is then kept once. False when full. */
static bool keep(struct proc_maps *maps, const struct proc_maps_line *line) {
    const struct symbol_mapping *from = &line->mapping;
    const struct kept_line *last = maps->count ? &maps->lines[maps->count - 1] : NULL;
    bool is_same = last && strcmp(maps->paths.data + last->path, from->path) == 0;
    uint32_t path = is_same ? last->path : (uint32_t)maps->paths.len;
    size_t len = is_same ? 0 : strlen(from->path) + 1;
    if (maps->count >= PROC_MAPS_LINES || maps->paths.len + len > PROC_MAPS_PATH_BYTES ||
        !array_room(&maps->lines, &maps->capacity, maps->count, 1))
        return false;
    sonde_buf_append(&maps->paths, from->path, len);
    maps->lines[maps->count++] = (struct kept_line){
        from->start,        from->end, from->offset,        from->inode,     from->device_major,
        from->device_minor, path,      line->is_executable, from->is_deleted};
    return !maps->paths.failed;
}

static void read_once(struct proc_maps *maps) {
    struct proc_maps_reader reader;
    struct proc_maps_line line;
    lock_take(&maps->lock);
    if (maps->reads == 0) {
        maps->reads++;
        proc_maps_begin(&reader, maps->pid, NULL);
        while (proc_maps_next(&reader, &line) && keep(maps, &line))
            continue;
        proc_maps_end(&reader);
        if (maps->paths.failed)
            maps->count = 0;
    }
    lock_drop(&maps->lock);
}

void proc_maps_begin(struct proc_maps_reader *reader, pid_t pid, struct proc_maps *maps) {
    reader->maps = maps;
    reader->next = 0;
    reader->file = maps ? NULL : proc_maps_open(pid);
    if (maps)
        read_once(maps);
}

static bool next_kept(struct proc_maps_reader *reader, struct proc_maps_line *line) {
    const struct proc_maps *maps = reader->maps;
    if (reader->next >= maps->count)
        return false;
    const struct kept_line *from = &maps->lines[reader->next++];
    line->is_executable = from->is_executable;
    line->mapping = (struct symbol_mapping){
        .start = from->start,
        .end = from->end,
        .offset = from->offset,
        .device_major = from->device_major,
        .device_minor = from->device_minor,
        .inode = from->inode,
        .path = maps->paths.data + from->path,
        .is_deleted = from->is_deleted,
    };
    return true;
}

bool proc_maps_next(struct proc_maps_reader *reader, struct proc_maps_line *line) {
    if (reader->maps)
        return next_kept(reader, line);
    return reader->file && fgets(reader->text, sizeof reader->text, reader->file) &&
           proc_maps_parse(reader->text, line);
}

void proc_maps_end(struct proc_maps_reader *reader) {
    if (reader->file)
        fclose(reader->file);
    reader->file = NULL;
}
