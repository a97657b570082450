/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/heap_places.h"

#include "service/engine/report/stacks.h"
#include "service/guest/ring.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAGE       4096ull
#define MOST_BYTES (1ull << 40) /* of a library */

/* What replaces a frame whose library cannot be known. */
static const char unloaded[] = "[unloaded library]";
#define NOTE_UNLOADED STACK_NOTE_COUNT /* its number, after those of the stacks */

static const char *text_of(uint32_t note) {
    return note == NOTE_UNLOADED ? unloaded : stack_note_text(note);
}

const char *heap_places_note(uint64_t start, const char *path) {
    bool is_note = start >= PLACES_BASE && start < PLACES_LIBRARIES && path[0] == '[';
    for (uint32_t note = 0; is_note && note <= NOTE_UNLOADED; note++)
        if (strcmp(path, text_of(note)) == 0)
            return text_of(note);
    return NULL;
}

/* ---- Stand-ins ---- */

/* The notes come first, so that stand-ins are in order of their addresses. */
static sonde_err add_notes(struct heap_places *places) {
    sonde_err err = SONDE_OK;
    if (places->has_notes)
        return err;
    for (uint32_t note = 0; note <= NOTE_UNLOADED && !err; note++) {
        uint64_t start = PLACES_BASE + note * PAGE;
        struct symbol_mapping mapping = {
            .start = start, .end = start + PAGE, .path = text_of(note)};
        err = generation_add(places->mapped, &mapping);
    }
    places->has_notes = !err;
    return err;
}

/* Each new one is above the last. SONDE_TOO_LARGE if there is no room for one. */
static sonde_err stand_in_for(struct heap_places *places, struct mapping *origin,
                              struct mapping **stand_in) {
    struct generation *mapped = places->mapped;
    sonde_err err = add_notes(places);
    if (err)
        return err;
    for (uint32_t i = places->present_count; i < mapped->count; i++)
        if ((*stand_in = mapped->mappings[i])->origin == origin)
            return SONDE_OK;
    struct symbol_mapping from = mapping_as_symbol(origin);
    uint32_t count = mapped->count;
    if (origin->end - origin->start > MOST_BYTES)
        return SONDE_TOO_LARGE;
    uint64_t last = mapped->mappings[count - 1]->end;
    from.start = (last > PLACES_LIBRARIES ? last : PLACES_LIBRARIES) + PAGE;
    from.end = from.start + (origin->end - origin->start);
    from.maps = NULL;
    err = generation_add(mapped, &from);
    if (!err && mapped->count == count)
        err = SONDE_TOO_LARGE;
    if (err)
        return err;
    *stand_in = mapped->mappings[count];
    (*stand_in)->origin = mapping_retain(origin);
    return SONDE_OK;
}

static sonde_err note_at(struct heap_places *places, uint32_t note, uint64_t *pc) {
    *pc = PLACES_BASE + note * PAGE + PAGE / 2;
    places->used_notes |= 1u << note;
    return add_notes(places);
}

/* ---- What is mapped now ---- */

static bool is_there(const struct heap_places *places, const struct mapping *mapping) {
    const struct mapping *now = generation_find(places->mapped, mapping->start);
    return now && now->start < PLACES_BASE && mapping_is_same(now, mapping);
}

static bool has_moved(const struct heap_places *places) {
    const struct mapping_lives *lives = places->lives;
    for (uint32_t i = 0; i < lives->present_count; i++)
        if (!is_there(places, lives->present[i].mapping))
            return true;
    return false;
}

/* A library that was loaded and closed between two readings left no life, only closes. */
static bool had_closes(const struct mapping_lives *lives) {
    return lives->readings[0].closes != lives->readings[lives->reading_count - 1].closes;
}

static sonde_err add_last(struct heap_places *places) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < places->lives->present_count && !err; i++) {
        struct symbol_mapping from = mapping_as_symbol(places->lives->present[i].mapping);
        from.maps = NULL;
        err = generation_add(places->mapped, &from);
    }
    for (uint32_t i = 0; i < places->mapped->count && !err; i++)
        places->mapped->mappings[i]->origin = mapping_retain(places->lives->present[i].mapping);
    return err;
}

sonde_err heap_places_init(struct heap_places *places, const struct mapping_lives *lives,
                           struct generation *mapped) {
    *places = (struct heap_places){.lives = lives, .mapped = mapped};
    while (mapped->count > 0 && mapped->mappings[mapped->count - 1]->start >= PLACES_BASE)
        mapping_release(mapped->mappings[--mapped->count]);
    sonde_err err = lives && mapped->count == 0 ? add_last(places) : SONDE_OK;
    places->present_count = mapped->count;
    places->is_simple =
        !lives || (lives->gone_count == 0 && !had_closes(lives) && !has_moved(places));
    return err;
}

/* ---- Moving ---- */

static int note_of(const struct alloc_place *place) {
    if (place->end == ALLOC_END_NO_TABLE_YET)
        return STACK_NOTE_NO_TABLE_YET;
    return place->end < RING_END_COUNT ? stack_end_note((enum stack_end)place->end) : -1;
}

bool heap_places_fit(const struct heap_places *places, const struct alloc_place *place) {
    bool is_settled = place->closes == ALLOC_PLACE_SETTLED;
    return places->is_simple && (is_settled || !places->lives) && note_of(place) < 0;
}

/* Where the code at `pc` is now. */
static sonde_err move_pc(struct heap_places *places, const struct alloc_place *place,
                         uint64_t *pc) {
    const struct mapping_life *life = NULL;
    const struct mapping *now;
    struct mapping *stand_in;
    sonde_err err;
    switch (mapping_lives_find(places->lives, place, *pc, &life)) {
    case LIVES_FOUND:
        if (is_there(places, life->mapping))
            return SONDE_OK;
        err = stand_in_for(places, life->mapping, &stand_in);
        if (err == SONDE_TOO_LARGE)
            return note_at(places, NOTE_UNLOADED, pc);
        *pc = err ? *pc : *pc - life->mapping->start + stand_in->start;
        return err;
    case LIVES_NO_FILE:
        now = generation_find(places->mapped, *pc);
        return now && now->inode != 0 ? note_at(places, NOTE_UNLOADED, pc) : SONDE_OK;
    case LIVES_UNKNOWN:
        return note_at(places, NOTE_UNLOADED, pc);
    default:
        return SONDE_OK;
    }
}

static sonde_err insert_note(struct heap_places *places, const struct alloc_place *place,
                             uint64_t *pcs, uint32_t *depth) {
    int note = note_of(place);
    uint32_t at = place->gap_at > 0 && place->gap_at < *depth ? place->gap_at : *depth;
    if (note < 0)
        return SONDE_OK;
    memmove(pcs + at + 1, pcs + at, (*depth - at) * sizeof *pcs);
    ++*depth;
    return note_at(places, (uint32_t)note, &pcs[at]);
}

sonde_err heap_places_move(struct heap_places *places, const struct alloc_place *place,
                           uint64_t *pcs, uint32_t *depth) {
    sonde_err err = SONDE_OK;
    if (heap_places_fit(places, place))
        return SONDE_OK;
    for (uint32_t i = 0; places->lives && i < *depth && !err; i++) {
        uint64_t mark = pcs[i] & RING_PC_EXACT, back = mark == 0 && pcs[i] > 0;
        uint64_t pc = (pcs[i] & ~RING_PC_EXACT) - back;
        err = move_pc(places, place, &pc);
        pcs[i] = (pc + back) | mark;
    }
    return err ? err : insert_note(places, place, pcs, depth);
}

/* ---- Text ---- */

/* The path still is that file's, as far as the kernel knows without asking a file system: the
 * process chose the path, and it may lead to one that never answers. Where the process sees another
 * tree, or the kernel cannot tell (before Linux 5.12), the answer is false. */
static bool is_same_file(const struct mapping *mapping) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    struct stat file = {0};
    int fd = mapping->is_deleted
                 ? -1
                 : (int)syscall(SYS_openat2, AT_FDCWD, mapping->path, &how, sizeof how);
    bool is_same = fd >= 0 && fstatat(fd, "", &file, AT_EMPTY_PATH) == 0 &&
                   file.st_ino == mapping->inode && major(file.st_dev) == mapping->device_major &&
                   minor(file.st_dev) == mapping->device_minor;
    if (fd >= 0)
        close(fd);
    return is_same;
}

/* Without [vsyscall], which is the last line. Readers want the lines in order. */
static struct sonde_slice user_lines(struct sonde_slice lines) {
    static const char start[] = "ffffffffff600000-";
    const char *found = memmem(lines.data, lines.len, start, sizeof start - 1);
    return found ? (struct sonde_slice){lines.data, (size_t)(found - lines.data)} : lines;
}

void heap_places_write(const struct heap_places *places, struct sonde_slice lines,
                       struct sonde_buf *text) {
    bool has_more = places->mapped->count > places->present_count;
    struct sonde_slice shown = has_more ? user_lines(lines) : lines;
    sonde_buf_append(text, shown.data, shown.len);
    if (shown.len > 0 && shown.data[shown.len - 1] != '\n')
        sonde_buf_putc(text, '\n');
    for (uint32_t i = places->present_count; i < places->mapped->count; i++) {
        const struct mapping *mapping = places->mapped->mappings[i];
        uint64_t page = (mapping->start - PLACES_BASE) / PAGE;
        if (page <= NOTE_UNLOADED && !(places->used_notes >> page & 1))
            continue;
        sonde_buf_printf(text, "%llx-%llx r-xp %08llx %02x:%02x %llu %s%s\n",
                         (unsigned long long)mapping->start, (unsigned long long)mapping->end,
                         (unsigned long long)mapping->offset, mapping->device_major,
                         mapping->device_minor, (unsigned long long)mapping->inode, mapping->path,
                         mapping->inode == 0 || is_same_file(mapping) ? "" : " (deleted)");
    }
}

static bool is_same_part(const struct mapping *one, const struct mapping *other) {
    return one->inode == other->inode && one->device_major == other->device_major &&
           one->device_minor == other->device_minor && one->offset == other->offset &&
           one->end - one->start == other->end - other->start &&
           strcmp(one->path, other->path) == 0;
}

static struct mapping *find_part(const struct mapping_life *lives, uint32_t count,
                                 const struct mapping *mapping) {
    for (uint32_t i = 0; i < count; i++)
        if (is_same_part(lives[i].mapping, mapping))
            return lives[i].mapping;
    return NULL;
}

void heap_places_adopt(const struct mapping_lives *lives, struct generation *mapped) {
    for (uint32_t i = 0; lives && i < mapped->count; i++) {
        struct mapping *mapping = mapped->mappings[i];
        if (mapping->start < PLACES_LIBRARIES || mapping->inode == 0 || mapping->origin)
            continue;
        struct mapping *origin = find_part(lives->gone, lives->gone_count, mapping);
        if (!origin)
            origin = find_part(lives->present, lives->present_count, mapping);
        mapping->origin = origin ? mapping_retain(origin) : NULL;
    }
}
