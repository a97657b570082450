/* SPDX-License-Identifier: Apache-2.0
 *
 * In a profile, every address is inside the call: one before the return address. In a dump, only
 * the leaf is; the others are return addresses (api/profile/heap/jemalloc.h).
 *
 * Readers of dumps multiply each stack by 1 / (1 - exp(-(bytes / objects) / R)). Our numbers are
 * estimates already, so they are divided by that factor before they are written. A reader then gets
 * back what we know, even for stacks with mixed sizes. */
#include "service/engine/memory_report/alloc_report.h"

#include "api/base/array.h"
#include "api/hash_index.h"

#include "service/engine/core/engine_state.h"
#include "service/engine/memory_report/dump_profile.h"
#include "service/engine/report/report.h"
#include "service/guest/ring.h"
#include "service/process/process_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_MAPS_BYTES ((size_t)16 << 20)
/* Number of frames per block: allocators return larger blocks to the system at once. */
#define PIECE       (1u << 18)
#define MOST_DEPTH  (ALLOC_MAX_DEPTH + 1u) /* with a note */
#define MOST_PIECES (2 * (ALLOC_STACK_BYTES / sizeof(uint64_t) / (PIECE - MOST_DEPTH) + 1))

#define CACHED_PCS 8192u

static const struct sonde_value_type types[] = {
    {"alloc_objects", "count"},
    {"alloc_space", "bytes"},
    {"inuse_objects", "count"},
    {"inuse_space", "bytes"},
};

void alloc_report_read_maps(const struct process_identity *process, struct sonde_buf *text) {
    char bytes[16384];
    int fd =
        process_identity_holds(process) ? process_file_open(PROCESS_MAPS, process->pid, 0, 0) : -1;
    text->limit = MAX_MAPS_BYTES;
    for (ssize_t got; fd >= 0 && !text->failed && (got = read(fd, bytes, sizeof bytes)) > 0;)
        sonde_buf_append(text, bytes, (size_t)got);
    if (fd >= 0)
        close(fd);
    if (!process_identity_holds(process))
        sonde_buf_finish(text);
}

static bool has_any(const struct alloc_sum *sum, bool live) {
    return sum->place && (sum->samples > 0 || (live && sum->live_samples > 0));
}

/* ---- A profile ---- */

/* The locations of the pcs seen so far. Most stacks share most of theirs. */
struct known_pc {
    uint64_t pc;
    uint32_t location; /* id in the raw profile */
};

struct known_pcs {
    struct known_pc *items;
    uint32_t count, capacity;
    struct hash_index index;           /* index of items by pc */
    struct known_pc cache[CACHED_PCS]; /* the last pc of each place: most lookups end here */
};

/* Stacks are copied out of the table once, as raw locations. When all locations are named, the
 * profile adopts the stacks and samples are built from them. */
struct building {
    const struct alloc_report *report;
    struct generation *mapped;
    struct heap_places places;
    struct sonde_profile *raw; /* mappings and locations */
    struct known_pcs *known;
    uint32_t *pieces[MOST_PIECES];       /* stacks of each sum, one after the other */
    uint32_t piece_count, adopted_count; /* the profile owns the first ones */
    uint8_t *depths;                     /* per sum; 0 = not in the report */
    uint32_t stack_count;                /* number in the report */
    struct heap_located named;
    uint32_t allocator; /* the location "[allocator]"; 0 = not needed yet */
    bool has_trimmed;
    bool has_moved; /* so stacks that differ in the table may be equal */
};

struct sonde_profile *alloc_report_empty(void) {
    struct sonde_profile *profile = sonde_profile_create(types, 2, REPORT_MAX_BYTES);
    struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                      .default_type = 1,
                                      .is_unbiased = true,
                                      .time_unix_ns = now_unix_ns()};
    if (profile)
        sonde_profile_set_info(profile, &info);
    return profile;
}

/* Adds those mappings to the raw profile that it does not have yet, so that their ids are their
 * numbers in `mapped` + 1. */
static sonde_err add_mappings(struct building *building) {
    sonde_err err = SONDE_OK;
    uint32_t first = (uint32_t)sonde_profile_mapping_count(building->raw);
    for (uint32_t i = first; i < building->mapped->count && !err; i++) {
        const struct mapping *from = building->mapped->mappings[i];
        struct sonde_mapping mapping = {
            .start = from->start, .limit = from->end, .offset = from->offset};
        uint32_t id;
        err =
            sonde_profile_string(building->raw, from->path, strlen(from->path), &mapping.filename);
        if (!err)
            err = sonde_profile_add_mapping(building->raw, &mapping, &id);
    }
    return err;
}

/* The id (index + 1) of the mapping that contains the address; 0 = none. */
static uint32_t mapping_of(const struct generation *mapped, uint64_t address) {
    uint32_t low = 0, high = mapped->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (mapped->mappings[middle]->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < mapped->count && mapped->mappings[low]->start <= address ? low + 1 : 0;
}

static inline struct known_pc *cached(struct known_pcs *known, uint64_t pc) {
    return &known->cache[(pc * 0x9e3779b97f4a7c15ull >> 32) % CACHED_PCS];
}

/* 0 = unknown. */
static uint32_t find_known(struct known_pcs *known, uint64_t pc) {
    struct hash_probe probe = hash_probe(hash_index_words(&known->index, pc, 0));
    uint32_t number;
    while ((number = hash_index_next(&known->index, &probe)) != HASH_INDEX_NONE)
        if (known->items[number].pc == pc) {
            *cached(known, pc) = known->items[number];
            return known->items[number].location;
        }
    return 0;
}

static sonde_err add_known(struct known_pcs *known, uint64_t pc, uint32_t location) {
    if (!array_room(&known->items, &known->capacity, known->count, 1))
        return SONDE_OUT_OF_MEMORY;
    uint32_t hash = hash_index_words(&known->index, pc, 0);
    if (!hash_index_add(&known->index, hash, known->count))
        return SONDE_OUT_OF_MEMORY;
    known->items[known->count++] = (struct known_pc){pc, location};
    return SONDE_OK;
}

static void known_destroy(struct known_pcs *known) {
    if (!known)
        return;
    hash_index_finish(&known->index);
    free(known->items);
    free(known);
}

static uint64_t inside_call(uint64_t pc) {
    return pc & RING_PC_EXACT ? pc & ~RING_PC_EXACT : pc - 1;
}

static sonde_err locate_new(struct building *building, uint64_t pc, uint32_t *id) {
    uint64_t address = inside_call(pc);
    struct sonde_location location = {.mapping = mapping_of(building->mapped, address),
                                      .address = address};
    *id = find_known(building->known, pc); /* the same pc may occur twice in the stack */
    if (*id)
        return SONDE_OK;
    sonde_err err = sonde_profile_add_location(building->raw, &location, id);
    return err ? err : add_known(building->known, pc, *id);
}

static int64_t whole(double value) {
    return value >= 9e18 ? INT64_MAX : (int64_t)(value + 0.5);
}

/* ---- The profile's stacks ---- */

/* Where the next stack goes. The same sequence of depths always gives the same places. */
struct cursor {
    uint32_t piece, used;
};

static uint32_t *place_at(struct building *building, struct cursor *cursor) {
    if (cursor->used + MOST_DEPTH > PIECE)
        *cursor = (struct cursor){.piece = cursor->piece + 1};
    if (cursor->piece == building->piece_count && cursor->piece < MOST_PIECES) {
        uint32_t *piece = malloc(PIECE * sizeof *piece);
        building->pieces[building->piece_count] = piece;
        building->piece_count += piece != NULL;
    }
    return cursor->piece < building->piece_count ? building->pieces[cursor->piece] + cursor->used
                                                 : NULL;
}

/* Writes the location of each known pc, and 0 for the others. Returns whether all are known, which
 * is nearly always true; a snapshot spends its time in this loop. */
static bool locate_known(struct known_pcs *known, const uint64_t *pcs, uint32_t depth,
                         uint32_t *ids) {
    bool has_all = true;
    for (uint32_t i = 0; i < depth; i++) {
        const struct known_pc *guess = cached(known, pcs[i]);
        ids[i] = guess->pc == pcs[i] ? guess->location : find_known(known, pcs[i]);
        has_all &= ids[i] != 0;
    }
    return has_all;
}

static sonde_err collect_stack(struct building *building, uint32_t number, struct cursor *cursor) {
    const struct alloc_report *report = building->report;
    struct alloc_place place;
    uint64_t pcs[MOST_DEPTH];
    uint32_t depth = alloc_view_stack(report->view, report->sums->items[number].place, pcs, &place);
    uint32_t *ids = place_at(building, cursor);
    sonde_err err = ids ? SONDE_OK : SONDE_TOO_LARGE;
    if (!err && depth > 0 && !heap_places_fit(&building->places, &place)) {
        building->has_moved = true;
        err = heap_places_move(&building->places, &place, pcs, &depth);
    }
    if (err)
        return err;
    err = add_mappings(building);
    if (!err && !locate_known(building->known, pcs, depth, ids))
        for (uint32_t i = 0; i < depth && !err; i++)
            err = ids[i] ? SONDE_OK : locate_new(building, pcs[i], &ids[i]);
    building->depths[number] = (uint8_t)depth;
    cursor->used += depth;
    building->stack_count += depth > 0;
    return err;
}

static sonde_err collect(struct building *building) {
    const struct alloc_report *report = building->report;
    struct cursor cursor = {0};
    building->raw = sonde_profile_create(types, report->live ? 4 : 2, REPORT_MAX_BYTES);
    building->depths = calloc(report->sums->count + 1, 1);
    building->known = calloc(1, sizeof *building->known);
    if (!building->mapped || !building->raw || !building->depths || !building->known)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = heap_places_init(&building->places, report->lives, building->mapped);
    if (!err)
        err = add_mappings(building);
    hash_index_init(&building->known->index);
    for (uint32_t i = 0; i < report->sums->count && !err; i++)
        if (has_any(&report->sums->items[i], report->live))
            err = collect_stack(building, i, &cursor);
    return err;
}

/* ---- The profile's samples ---- */

/* The location of stacks that consist of allocator frames only, as in sonde_memory_trim. */
static sonde_err make_allocator(struct building *building) {
    static const char name[] = "[allocator]";
    struct sonde_profile *profile = building->named.profile;
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line, .kind = SONDE_FRAME_NOTE};
    sonde_err err = sonde_profile_string(profile, name, sizeof name - 1, &function.name);
    if (!err)
        err = sonde_profile_add_function(profile, &function, &line.function);
    return err ? err : sonde_profile_add_location(profile, &location, &building->allocator);
}

static sonde_err add_sample(struct building *building, const struct alloc_sum *sum,
                            const uint32_t *stack, uint32_t depth, bool is_trimmed) {
    int64_t values[] = {whole(sum->objects), whole(sum->bytes), whole(sum->live_objects),
                        whole(sum->live_bytes)};
    struct sonde_sample sample = {.locations = stack,
                                  .location_count = depth,
                                  .values = values,
                                  .sampled =
                                      building->report->live ? sum->live_samples : sum->samples};
    return is_trimmed || building->has_moved
               ? sonde_profile_add_sample(building->named.profile, &sample)
               : sonde_profile_append_sample(building->named.profile, &sample);
}

static sonde_err add_trimmed(struct building *building, const struct alloc_sum *sum,
                             const uint32_t *stack, uint32_t depth) {
    sonde_err err = SONDE_OK;
    if (depth > 0)
        return add_sample(building, sum, stack, depth, true);
    if (!building->allocator)
        err = make_allocator(building);
    return err ? err : add_sample(building, sum, &building->allocator, 1, true);
}

/* Works in place. */
static void name_stack(const struct building *building, uint32_t *stack, uint32_t depth) {
    const uint32_t *names = building->named.locations;
    for (uint32_t *end = stack + depth; stack < end; stack++)
        *stack = names[*stack];
}

/* Removes the allocator's part of the leaf and returns how many locations were removed. */
static uint32_t trim_leaf(const struct building *building, uint32_t *stack, uint32_t depth) {
    const uint32_t *leaves = building->named.leaves;
    uint32_t skip = 0;
    while (leaves && skip < depth && leaves[stack[skip]] == 0)
        skip++;
    if (leaves && skip < depth)
        stack[skip] = leaves[stack[skip]];
    return skip;
}

/* Adds either the stacks of which no location was removed, or the others. The former come first,
 * because their frames are named by then. They differ: a location that lost lines still has its
 * address. */
static sonde_err add_some(struct building *building, bool trimmed) {
    const struct alloc_sums *sums = building->report->sums;
    struct cursor cursor = {0};
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < sums->count && !err; i++) {
        uint32_t depth = building->depths[i];
        if (depth == 0)
            continue;
        uint32_t *stack = place_at(building, &cursor);
        if (!trimmed)
            name_stack(building, stack, depth);
        uint32_t skip = trim_leaf(building, stack, depth);
        if (skip == 0 && !trimmed)
            err = add_sample(building, &sums->items[i], stack, depth, false);
        else if (skip > 0 && trimmed)
            err = add_trimmed(building, &sums->items[i], stack + skip, depth - skip);
        cursor.used += depth;
        building->has_trimmed |= skip > 0;
    }
    return err;
}

static sonde_err adopt_pieces(struct building *building) {
    sonde_err err = SONDE_OK;
    while (building->adopted_count < building->piece_count && !err) {
        uint32_t *piece = building->pieces[building->adopted_count];
        err = sonde_profile_adopt(building->named.profile, piece, PIECE * sizeof *piece);
        building->adopted_count += !err;
    }
    return err;
}

/* The table has each stack once, so only stacks that were trimmed can be equal to others. */
static sonde_err add_samples(struct building *building) {
    sonde_err err = sonde_profile_expect_samples(building->named.profile, building->stack_count);
    if (!err)
        err = adopt_pieces(building);
    if (!err)
        err = add_some(building, false);
    return err || !building->has_trimmed ? err : add_some(building, true);
}

static sonde_err add_metadata(struct building *building) {
    const struct alloc_report *report = building->report;
    struct sonde_profile_info info = {
        .period_type = {"space", "bytes"},
        .period = (int64_t)report->mean,
        .time_unix_ns = report->start_unix_ns,
        .duration_ns = report->end_unix_ns - report->start_unix_ns,
        .default_type = report->live ? 3 : 1,
        .is_unbiased = true,
    };
    sonde_profile_set_info(building->named.profile, &info);
    if (!report->comment)
        return SONDE_OK;
    return sonde_profile_add_comment(building->named.profile, report->comment);
}

sonde_err alloc_report_profile(struct engine *engine, const struct alloc_report *report,
                               struct sonde_profile **profile, struct sonde_diag *diag) {
    struct building building = {.report = report, .mapped = heap_mappings(report->maps)};
    *profile = NULL;
    sonde_err err = collect(&building);
    if (!err)
        err = heap_profile_locate(engine, report->process, building.raw, building.mapped,
                                  report->has_hooks, report->keep_frames, &building.named, diag);
    if (!err)
        err = add_samples(&building);
    if (!err)
        err = add_metadata(&building);
    if (err) {
        err = sonde_fail(diag, err, "heap profile: %s", sonde_diag_text(NULL, err));
    } else {
        *profile = building.named.profile;
        building.named.profile = NULL;
    }
    heap_located_finish(&building.named);
    sonde_profile_destroy(building.raw);
    known_destroy(building.known);
    for (uint32_t i = building.adopted_count; i < building.piece_count; i++)
        free(building.pieces[i]);
    free(building.depths);
    generation_destroy(building.mapped);
    return err;
}

/* ---- A dump ---- */

/* The number that a reader's scaling turns into our estimate. */
static void bias(double mean, double objects, double bytes, uint64_t raw[2]) {
    double size = objects > 0 ? bytes / objects : 0;
    double chance = mean >= 1 && size > 0 ? -expm1(-size / mean) : 1;
    raw[0] = (uint64_t)whole(objects * chance);
    if (raw[0] == 0 && objects > 0)
        raw[0] = 1;
    raw[1] = (uint64_t)whole((double)raw[0] * size);
}

struct raw_sum {
    uint64_t live[2], all[2];
};

static struct raw_sum raw_of(const struct alloc_report *report, const struct alloc_sum *sum) {
    struct raw_sum raw;
    bias((double)report->mean, sum->live_objects, sum->live_bytes, raw.live);
    bias((double)report->mean, sum->objects, sum->bytes, raw.all);
    return raw;
}

static void write_counts(struct sonde_buf *text, const struct raw_sum *raw) {
    sonde_buf_printf(text, "  t*: %llu: %llu [%llu: %llu]\n", (unsigned long long)raw->live[0],
                     (unsigned long long)raw->live[1], (unsigned long long)raw->all[0],
                     (unsigned long long)raw->all[1]);
}

static void write_hex(struct sonde_buf *text, uint64_t value) {
    char digits[20] = " 0x";
    int len = 3, shift = value ? 60 - (__builtin_clzll(value) & ~3) : 0;
    for (; shift >= 0; shift -= 4)
        digits[len++] = "0123456789abcdef"[value >> shift & 15];
    sonde_buf_append(text, digits, (size_t)len);
}

static sonde_err write_stack(const struct alloc_report *report, struct heap_places *places,
                             const struct alloc_sum *sum, struct sonde_buf *text) {
    struct alloc_place place;
    uint64_t pcs[MOST_DEPTH];
    uint32_t depth = alloc_view_stack(report->view, sum->place, pcs, &place);
    struct raw_sum raw = raw_of(report, sum);
    if (depth == 0)
        return SONDE_OK;
    sonde_err err = heap_places_move(places, &place, pcs, &depth);
    sonde_buf_putc(text, '@');
    for (uint32_t i = 0; i < depth; i++)
        write_hex(text, i == 0 ? inside_call(pcs[i]) : pcs[i] & ~RING_PC_EXACT);
    sonde_buf_putc(text, '\n');
    write_counts(text, &raw);
    return err;
}

static struct raw_sum raw_total(const struct alloc_report *report) {
    struct raw_sum total = {0};
    for (uint32_t i = 0; i < report->sums->count; i++) {
        struct raw_sum raw = raw_of(report, &report->sums->items[i]);
        for (int k = 0; k < 2; k++) {
            total.live[k] += raw.live[k];
            total.all[k] += raw.all[k];
        }
    }
    return total;
}

static sonde_err write_text(const struct alloc_report *report, struct heap_places *places,
                            struct sonde_buf *text) {
    struct raw_sum total = raw_total(report);
    sonde_err err = SONDE_OK;
    sonde_buf_printf(text, "heap_v2/%llu\n", (unsigned long long)(report->mean ? report->mean : 1));
    write_counts(text, &total);
    for (uint32_t i = 0; i < report->sums->count && !text->failed && !err; i++)
        if (has_any(&report->sums->items[i], true))
            err = write_stack(report, places, &report->sums->items[i], text);
    sonde_buf_puts(text, "\nMAPPED_LIBRARIES:\n");
    heap_places_write(places, report->maps, text);
    return err;
}

sonde_err alloc_report_text(const struct alloc_report *report, struct sonde_buf *text,
                            struct sonde_diag *diag) {
    struct heap_places places;
    struct generation *mapped = heap_mappings(report->maps);
    sonde_err err = mapped ? heap_places_init(&places, report->lives, mapped) : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = write_text(report, &places, text);
    generation_destroy(mapped);
    if (err)
        return sonde_fail(diag, err, "heap dump: %s", sonde_diag_text(NULL, err));
    if (text->failed)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the heap dump is larger than %zu bytes; sample less often", text->limit);
    return SONDE_OK;
}
