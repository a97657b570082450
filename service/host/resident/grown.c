/* SPDX-License-Identifier: Apache-2.0
 *
 * One fault can bring one page, 16 pages of a file, or a huge page, and a page may have had many
 * faults, of which the last one counts. So the pages are not counted by the weights of the samples:
 *
 *     new pages    ████  ██████████████  ████   │  ██████████████████████   known exactly
 *     samples        a      b    b         a    │   c c c c c c c c c
 *                  ───────── stratum ────────── │ ─────── stratum ───────
 *
 * The address space is cut into strata that have about ENOUGH samples, and the new pages of a
 * stratum are divided by weight among its samples. A chunk with many samples is a stratum of its
 * own, so memory that faults again and again has no more than its own pages. If nearly each fault
 * is sampled, strata are a chunk or a few. Kinds of memory are apart, and so are huge pages.
 *
 * Some pages had no fault: the kernel filled them in itself (MAP_POPULATE, mlock, direct I/O). So a
 * fault gets no more than it can bring, within chance. */
#include "service/host/resident/grown.h"

#include "api/base/array.h"

#include <math.h>
#include <stdlib.h>

#define ENOUGH       16u
#define AROUND_PAGES 16.0 /* of a file, mapped by one fault: fault_around_bytes is 64 KiB */
#define CHANCE       3.0  /* standard deviations */
#define NO_STRATUM   UINT32_MAX

/* What is divided apart: of each kind, small and huge pages. */
enum { GROUPS = 2 * RESIDENT_KINDS };

struct stratum {
    int group;
    uint64_t bytes; /* of new pages */
    double weight;
    uint32_t samples;
    double share; /* of the bytes, for its samples */
    double before, given;
};

struct dividing {
    const struct resident_set *now;
    struct grown_sample *samples;
    size_t count, next; /* the first sample that is not below the present chunk */
    struct stratum *strata;
    size_t stratum_count, stratum_capacity;
    double missed;
    uint32_t open[GROUPS], last[GROUPS]; /* strata; NO_STRATUM = none */
    struct grown *grown;
};

static enum resident_kind kind_of_group(int group) {
    return (enum resident_kind)(group / 2);
}

static uint64_t page_of(const struct dividing *dividing, const struct grown_sample *sample) {
    return sample->address / dividing->now->page_bytes;
}

/* --- samples ---------------------------------------------------------------------------------- */

/* Before sorting, `stratum` is the place in the array. */
static int by_address(const void *a, const void *b) {
    const struct grown_sample *left = a, *right = b;
    if (left->address != right->address)
        return left->address < right->address ? -1 : 1;
    return (left->stratum > right->stratum) - (left->stratum < right->stratum);
}

/* Sorts the samples by page, and those of a page by time. Rounds addresses down to their pages. */
static void sort_samples(struct dividing *dividing) {
    uint64_t page_bytes = dividing->now->page_bytes;
    for (size_t i = 0; i < dividing->count; i++) {
        dividing->samples[i].address -= dividing->samples[i].address % page_bytes;
        dividing->samples[i].stratum = (uint32_t)i;
        dividing->samples[i].bytes = 0;
    }
    qsort(dividing->samples, dividing->count, sizeof *dividing->samples, by_address);
    for (size_t i = 0; i < dividing->count; i++)
        dividing->samples[i].stratum = NO_STRATUM;
}

static bool is_last_of_page(const struct dividing *dividing, size_t i) {
    return i + 1 == dividing->count ||
           dividing->samples[i + 1].address != dividing->samples[i].address;
}

static bool has_page(const uint64_t pages[RESIDENT_WORDS], uint64_t page) {
    uint64_t at = page % RESIDENT_PAGES;
    return pages[at / 64] >> at % 64 & 1;
}

/* Calls nothing for samples outside of the new pages. With NO_STRATUM they are only counted. */
static uint32_t take_samples(struct dividing *dividing, uint64_t number,
                             const uint64_t pages[RESIDENT_WORDS], uint32_t stratum) {
    uint32_t taken = 0;
    while (dividing->next < dividing->count &&
           page_of(dividing, &dividing->samples[dividing->next]) / RESIDENT_PAGES < number)
        dividing->next++;
    for (size_t i = dividing->next; i < dividing->count; i++) {
        struct grown_sample *sample = &dividing->samples[i];
        uint64_t page = page_of(dividing, sample);
        if (page / RESIDENT_PAGES != number)
            break;
        if (!is_last_of_page(dividing, i) || !has_page(pages, page))
            continue;
        taken++;
        if (stratum == NO_STRATUM)
            continue;
        sample->stratum = stratum;
        sample->kind = kind_of_group(dividing->strata[stratum].group);
        dividing->strata[stratum].weight += (double)sample->weight;
        dividing->strata[stratum].samples++;
    }
    return taken;
}

/* --- strata ----------------------------------------------------------------------------------- */

static sonde_err open_stratum(struct dividing *dividing, int group) {
    if (dividing->open[group] != NO_STRATUM)
        return SONDE_OK;
    if (!array_room(&dividing->strata, &dividing->stratum_capacity, dividing->stratum_count, 1))
        return SONDE_OUT_OF_MEMORY;
    dividing->strata[dividing->stratum_count] = (struct stratum){.group = group};
    dividing->open[group] = (uint32_t)dividing->stratum_count++;
    return SONDE_OK;
}

static void close_stratum(struct dividing *dividing, int group) {
    dividing->last[group] = dividing->open[group];
    dividing->open[group] = NO_STRATUM;
}

/* The last pages of a group, if they have no sample, go to the stratum before them. */
static void close_last(struct dividing *dividing, int group) {
    uint32_t open = dividing->open[group], last = dividing->last[group];
    if (open == NO_STRATUM || last == NO_STRATUM || dividing->strata[open].samples > 0)
        return;
    dividing->strata[last].bytes += dividing->strata[open].bytes;
    dividing->strata[open].bytes = 0;
}

static sonde_err add_chunk(struct dividing *dividing, int group, uint64_t number,
                           const uint64_t pages[RESIDENT_WORDS], uint64_t bytes) {
    uint32_t samples = take_samples(dividing, number, pages, NO_STRATUM);
    uint32_t open = dividing->open[group];
    if (samples >= ENOUGH && open != NO_STRATUM && dividing->strata[open].samples > 0)
        close_stratum(dividing, group);
    sonde_err err = open_stratum(dividing, group);
    if (err)
        return err;
    struct stratum *stratum = &dividing->strata[dividing->open[group]];
    stratum->bytes += bytes;
    (void)take_samples(dividing, number, pages, dividing->open[group]);
    if (stratum->samples >= ENOUGH)
        close_stratum(dividing, group);
    return SONDE_OK;
}

/* The pages that one fault of the group can bring. */
static double most_pages(const struct dividing *dividing, int group) {
    bool is_huge = group % 2 == 1;
    if (is_huge)
        return RESIDENT_PAGES;
    return kind_of_group(group) == RESIDENT_ANONYMOUS ? dividing->now->fault_pages : AROUND_PAGES;
}

static void set_share(struct dividing *dividing, struct stratum *stratum) {
    double page_bytes = (double)dividing->now->page_bytes, bytes = (double)stratum->bytes;
    double chance = stratum->samples ? 1 + CHANCE / sqrt(stratum->samples) : 0;
    double faults = stratum->weight * dividing->missed * chance;
    double most = faults * most_pages(dividing, stratum->group) * page_bytes;
    stratum->share = bytes < most ? bytes : floor(most);
    dividing->grown->no_fault[kind_of_group(stratum->group)] +=
        stratum->bytes - (uint64_t)stratum->share;
}

/* Rounds the sums, so that they add up to the share. */
static void divide_shares(struct dividing *dividing) {
    for (size_t i = 0; i < dividing->count; i++) {
        struct grown_sample *sample = &dividing->samples[i];
        if (sample->stratum == NO_STRATUM)
            continue;
        struct stratum *stratum = &dividing->strata[sample->stratum];
        stratum->before += (double)sample->weight;
        double sum = floor(stratum->share * (stratum->before / stratum->weight) + 0.5);
        sample->bytes = (uint64_t)(sum - stratum->given);
        stratum->given = sum;
    }
}

/* --- pages ------------------------------------------------------------------------------------ */

static uint64_t count_pages(const uint64_t pages[RESIDENT_WORDS]) {
    uint64_t sum = 0;
    for (size_t i = 0; i < RESIDENT_WORDS; i++)
        sum += (uint64_t)__builtin_popcountll(pages[i]);
    return sum;
}

/* All chunks of a number together. */
struct former {
    uint64_t pages[RESIDENT_WORDS], swapped[RESIDENT_WORDS];
};

/* Moves *at to the chunk of the number, or behind it. */
static struct former find_former(const struct resident_set *before, size_t *at, uint64_t number) {
    struct former former = {0};
    while (*at < before->count && before->chunks[*at].number < number)
        ++*at;
    for (size_t i = *at; i < before->count && before->chunks[i].number == number; i++) {
        for (size_t word = 0; word < RESIDENT_WORDS; word++) {
            former.pages[word] |= before->chunks[i].pages[word];
            former.swapped[word] |= before->chunks[i].swapped[word];
        }
    }
    return former;
}

/* Where it is not known, as of files, a chunk that is all new may be a huge page. */
static int group_of(const struct dividing *dividing, const struct resident_chunk *chunk,
                    uint64_t new_pages) {
    bool is_known = dividing->now->knows_huge && chunk->kind == RESIDENT_ANONYMOUS;
    bool is_huge = chunk->is_huge || (!is_known && new_pages == RESIDENT_PAGES);
    return 2 * (int)chunk->kind + is_huge;
}

static sonde_err divide_chunks(struct dividing *dividing, const struct resident_set *before) {
    const struct resident_set *now = dividing->now;
    sonde_err err = SONDE_OK;
    size_t at = 0;
    for (size_t i = 0; i < now->count && !err; i++) {
        const struct resident_chunk *chunk = &now->chunks[i];
        struct former former = find_former(before, &at, chunk->number);
        uint64_t pages[RESIDENT_WORDS], back[RESIDENT_WORDS];
        for (size_t word = 0; word < RESIDENT_WORDS; word++) {
            pages[word] = chunk->pages[word] & ~former.pages[word] & ~former.swapped[word];
            back[word] = chunk->pages[word] & former.swapped[word];
        }
        uint64_t count = count_pages(pages), bytes = count * now->page_bytes;
        dividing->grown->back += count_pages(back) * now->page_bytes;
        dividing->grown->grown[chunk->kind] += bytes;
        dividing->grown->huge += chunk->is_huge && chunk->kind == RESIDENT_ANONYMOUS ? bytes : 0;
        if (count)
            err =
                add_chunk(dividing, group_of(dividing, chunk, count), chunk->number, pages, bytes);
    }
    return err;
}

static uint64_t gone_bytes(const struct resident_set *before, const struct resident_set *now) {
    uint64_t sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < before->count; i++) {
        const struct resident_chunk *chunk = &before->chunks[i];
        struct former present = find_former(now, &at, chunk->number);
        for (size_t word = 0; word < RESIDENT_WORDS && chunk->kind == RESIDENT_ANONYMOUS; word++)
            sum += (uint64_t)__builtin_popcountll(chunk->pages[word] & ~present.pages[word]);
    }
    return sum * before->page_bytes;
}

sonde_err grown_divide(const struct resident_set *before, const struct resident_set *now,
                       struct grown_sample *samples, size_t count, double missed,
                       struct grown *grown) {
    struct dividing dividing = {
        .now = now, .samples = samples, .count = count, .missed = missed, .grown = grown};
    *grown = (struct grown){.gone = gone_bytes(before, now)};
    for (int group = 0; group < GROUPS; group++)
        dividing.open[group] = dividing.last[group] = NO_STRATUM;
    sort_samples(&dividing);
    sonde_err err = divide_chunks(&dividing, before);
    for (int group = 0; group < GROUPS; group++)
        close_last(&dividing, group);
    for (size_t i = 0; i < dividing.stratum_count; i++)
        set_share(&dividing, &dividing.strata[i]);
    if (!err)
        divide_shares(&dividing);
    free(dividing.strata);
    return err;
}
