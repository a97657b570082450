/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/mapping_lives.h"

#include <stdlib.h>
#include <string.h>

const struct mapping_lives *mapping_lives_retain(const struct mapping_lives *lives) {
    if (lives)
        atomic_fetch_add_explicit(&((struct mapping_lives *)lives)->refs, 1, memory_order_relaxed);
    return lives;
}

void mapping_lives_release(const struct mapping_lives *shared) {
    struct mapping_lives *lives = (struct mapping_lives *)shared;
    if (!lives || atomic_fetch_sub_explicit(&lives->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < lives->present_count; i++)
        mapping_release(lives->present[i].mapping);
    for (uint32_t i = 0; i < lives->gone_count; i++)
        mapping_release(lives->gone[i].mapping);
    free(lives->present);
    free(lives->gone);
    free(lives->reach);
    free(lives->readings);
    free(lives);
}

/* ---- The next set ---- */

/* Room for the lives and readings of `old` and of the generation. */
static struct mapping_lives *create(const struct mapping_lives *old, uint32_t mappings) {
    struct mapping_lives *lives = calloc(1, sizeof *lives);
    size_t gone = old ? (size_t)old->gone_count + old->present_count : 0;
    size_t readings = old ? (size_t)old->reading_count + 1 : 1;
    if (!lives)
        return NULL;
    lives->refs = 1;
    lives->present = calloc(mappings + 1, sizeof *lives->present);
    lives->gone = calloc(gone + 1, sizeof *lives->gone);
    lives->reach = calloc(gone + 1, sizeof *lives->reach);
    lives->readings = calloc(readings, sizeof *lives->readings);
    if (lives->present && lives->gone && lives->reach && lives->readings)
        return lives;
    mapping_lives_release(lives);
    return NULL;
}

static bool is_file(const struct mapping *mapping) {
    return mapping->inode != 0 || strncmp(mapping->path, "[v", 2) == 0;
}

static void add(struct mapping_life *lives, uint32_t *count, struct mapping *mapping, uint64_t born,
                uint64_t gone) {
    lives[(*count)++] = (struct mapping_life){mapping_retain(mapping), born, gone};
}

/* The life with the last start at or below the address; NULL if there is none. */
static const struct mapping_life *last_from(const struct mapping_life *lives, uint32_t count,
                                            uint64_t address) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lives[middle].mapping->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &lives[low - 1] : NULL;
}

static bool is_in(const struct mapping_life *life, uint64_t address) {
    return address >= life->mapping->start && address < life->mapping->end;
}

static const struct mapping_life *present_at(const struct mapping_lives *lives, uint64_t address) {
    const struct mapping_life *life = last_from(lives->present, lives->present_count, address);
    return life && is_in(life, address) ? life : NULL;
}

/* Whether the mapping of an earlier generation is also one of this generation. */
static bool continues(const struct mapping_life *old, const struct mapping *now) {
    return now && mapping_is_same(old->mapping, now) && (now->born == 0 || now->born == old->born);
}

static void add_present(struct mapping_lives *lives, const struct mapping_lives *old,
                        const struct generation *generation) {
    lives->oldest = UINT64_MAX;
    for (uint32_t i = 0; i < generation->count; i++) {
        struct mapping *mapping = generation->mappings[i];
        if (!is_file(mapping))
            continue;
        const struct mapping_life *before = old ? present_at(old, mapping->start) : NULL;
        uint64_t born = mapping->born ? mapping->born : generation->number;
        if (before && continues(before, mapping))
            born = before->born;
        add(lives->present, &lives->present_count, mapping, born, 0);
        lives->oldest = born < lives->oldest ? born : lives->oldest;
    }
}

static void forget(struct mapping_lives *lives, uint64_t gone) {
    lives->horizon = gone > lives->horizon ? gone : lives->horizon;
}

static void add_gone(struct mapping_lives *lives, const struct mapping_lives *old,
                     const struct generation *generation, bool keeps_gone) {
    for (uint32_t i = 0; i < old->gone_count; i++) {
        const struct mapping_life *life = &old->gone[i];
        if (keeps_gone)
            add(lives->gone, &lives->gone_count, life->mapping, life->born, life->gone);
        else
            forget(lives, life->gone);
    }
    for (uint32_t i = 0; i < old->present_count; i++) {
        const struct mapping_life *life = &old->present[i];
        if (continues(life, generation_find(generation, life->mapping->start)))
            continue;
        if (keeps_gone)
            add(lives->gone, &lives->gone_count, life->mapping, life->born, generation->number);
        else
            forget(lives, generation->number);
    }
}

static int by_gone(const void *a, const void *b) {
    const struct mapping_life *one = a, *other = b;
    return (one->gone < other->gone) - (one->gone > other->gone);
}

/* The newest LIVES_MAX_GONE stay. */
static void forget_first_gone(struct mapping_lives *lives) {
    if (lives->gone_count <= LIVES_MAX_GONE)
        return;
    qsort(lives->gone, lives->gone_count, sizeof *lives->gone, by_gone);
    while (lives->gone_count > LIVES_MAX_GONE) {
        const struct mapping_life *first = &lives->gone[--lives->gone_count];
        forget(lives, first->gone);
        mapping_release(first->mapping);
    }
}

static int by_start(const void *a, const void *b) {
    const struct mapping_life *one = a, *other = b;
    uint64_t left = one->mapping->start, right = other->mapping->start;
    return (left > right) - (left < right);
}

static void sort_gone(struct mapping_lives *lives) {
    if (lives->gone_count > 1)
        qsort(lives->gone, lives->gone_count, sizeof *lives->gone, by_start);
    uint64_t reach = 0;
    for (uint32_t i = 0; i < lives->gone_count; i++) {
        uint64_t end = lives->gone[i].mapping->end;
        lives->reach[i] = reach = end > reach ? end : reach;
    }
}

static void add_reading(struct mapping_lives *lives, const struct mapping_lives *old,
                        const struct lives_reading *reading) {
    uint32_t all = old ? old->reading_count : 0;
    uint32_t skip = all >= LIVES_MAX_READINGS ? all - LIVES_MAX_READINGS + 1 : 0;
    if (all > skip)
        memcpy(lives->readings, old->readings + skip, (all - skip) * sizeof *reading);
    struct lives_reading *last = &lives->readings[all - skip];
    *last = *reading;
    if (last > lives->readings && last[-1].closes > last->closes) /* only a lie can be smaller */
        last->closes = last[-1].closes;
    lives->reading_count = all - skip + 1;
}

void mapping_lives_update(const struct mapping_lives **lives, const struct generation *generation,
                          uint32_t closes, bool keeps_gone) {
    const struct mapping_lives *old = *lives;
    bool is_newer = !old || generation->number > old->readings[old->reading_count - 1].generation;
    struct mapping_lives *next = create(is_newer ? old : NULL, generation->count);
    if (!next)
        return;
    if (!is_newer) /* a guest that counts again from the start */
        old = NULL;
    next->horizon = old ? old->horizon : generation->number;
    add_present(next, old, generation);
    if (old)
        add_gone(next, old, generation, keeps_gone);
    forget_first_gone(next);
    sort_gone(next);
    add_reading(next, old, &(struct lives_reading){generation->number, closes});
    mapping_lives_release(*lives);
    *lives = next;
}

/* ---- Finding ---- */

/* Calls of `fits` with each life at the address; returns the first for which it is true. */
typedef bool life_fits(const struct mapping_life *life, uint64_t generation);

static const struct mapping_life *find_life(const struct mapping_lives *lives, uint64_t address,
                                            life_fits *fits, uint64_t generation) {
    const struct mapping_life *life = present_at(lives, address);
    if (life && fits(life, generation))
        return life;
    life = last_from(lives->gone, lives->gone_count, address);
    for (; life && lives->reach[life - lives->gone] > address; life--) {
        if (is_in(life, address) && fits(life, generation))
            return life;
        if (life == lives->gone)
            break;
    }
    return NULL;
}

static bool is_mapped_in(const struct mapping_life *life, uint64_t generation) {
    return life->born <= generation && (life->gone == 0 || generation < life->gone);
}

static bool is_other_than(const struct mapping_life *life, uint64_t born) {
    return life->born != born;
}

static bool is_any(const struct mapping_life *life, uint64_t generation) {
    return true;
}

static const struct mapping_life *life_in(const struct mapping_lives *lives, uint64_t generation,
                                          uint64_t address) {
    return find_life(lives, address, is_mapped_in, generation);
}

/* When nothing is known of the time: the only file that was ever seen there. */
static enum lives_answer find_only(const struct mapping_lives *lives, uint64_t address,
                                   const struct mapping_life **life) {
    *life = find_life(lives, address, is_any, 0);
    if (!*life)
        return LIVES_NO_FILE;
    return find_life(lives, address, is_other_than, (*life)->born) ? LIVES_UNKNOWN : LIVES_FOUND;
}

static enum lives_answer found(const struct mapping_life *life) {
    return life ? LIVES_FOUND : LIVES_NO_FILE;
}

/* Index of the first reading from that generation on with at least as many closes. Both only grow
 * from one reading to the next. */
static uint32_t reading_from(const struct mapping_lives *lives, uint64_t generation,
                             uint32_t closes) {
    uint32_t low = 0, high = lives->reading_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct lives_reading *reading = &lives->readings[middle];
        if (reading->generation < generation || reading->closes < closes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first reading after that generation with at least as many closes. */
static const struct lives_reading *reading_after(const struct mapping_lives *lives,
                                                 const struct alloc_place *place) {
    uint32_t at = reading_from(lives, place->generation + 1, place->closes);
    return at < lives->reading_count ? &lives->readings[at] : NULL;
}

static uint32_t closes_in(const struct mapping_lives *lives, uint64_t generation) {
    uint32_t at = reading_from(lives, generation, 0);
    bool is_known = at < lives->reading_count && lives->readings[at].generation == generation;
    return is_known ? lives->readings[at].closes : ALLOC_PLACE_SETTLED;
}

static enum lives_answer find_unsettled(const struct mapping_lives *lives,
                                        const struct alloc_place *place, uint64_t address,
                                        const struct mapping_life **life) {
    const struct mapping_life *then = life_in(lives, place->generation, address), *later;
    const struct lives_reading *reading = reading_after(lives, place);
    *life = then;
    if (then && closes_in(lives, place->generation) == place->closes)
        return LIVES_FOUND;
    if (!reading)
        return then && then->gone == 0 ? LIVES_FOUND : LIVES_NEWER;
    later = life_in(lives, reading->generation, address);
    if (reading->closes == place->closes)
        *life = later;
    return *life == later ? found(later) : LIVES_UNKNOWN;
}

enum lives_answer mapping_lives_find(const struct mapping_lives *lives,
                                     const struct alloc_place *place, uint64_t address,
                                     const struct mapping_life **life) {
    enum lives_answer answer;
    if (place->generation == 0)
        return find_only(lives, address, life);
    if (place->closes != ALLOC_PLACE_SETTLED) {
        answer = find_unsettled(lives, place, address, life);
    } else {
        uint64_t newest = lives->readings[lives->reading_count - 1].generation;
        *life = life_in(lives, place->generation, address);
        answer = *life || place->generation <= newest ? found(*life) : LIVES_NEWER;
    }
    return answer == LIVES_NO_FILE && place->generation < lives->horizon ? LIVES_UNKNOWN : answer;
}
