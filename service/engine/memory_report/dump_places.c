/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/dump_places.h"

#include "service/engine/memory_report/dump_profile.h"
#include "service/engine/memory_report/heap_places.h"
#include "service/guest/ring.h"

#include <string.h>

#define MOST_PCS 511u /* with a note, what the reader of dumps takes */

struct rewriting {
    struct heap_places places;
    struct alloc_place untagged; /* that of a stack without tags */
    struct sonde_buf out;
};

static bool has_tags(struct sonde_slice text) {
    static const char tag[] = " 0x53d1"; /* ALLOC_TAG_PLACE, of 16 digits */
    const char *at = text.data, *end = text.data + text.len;
    while ((at = memmem(at, (size_t)(end - at), tag, sizeof tag - 1))) {
        at += sizeof tag - 1;
        size_t digits = 0;
        while (at + digits < end && digits < 13 && strchr("0123456789abcdef", at[digits]))
            digits++;
        if (digits == 12)
            return true;
    }
    return false;
}

/* Reads a tag from the end of the stack. */
static bool take_tag(uint64_t kind, const uint64_t *pcs, uint32_t *depth, uint64_t *tag) {
    if (*depth < 2 || pcs[*depth - 1] >> ALLOC_TAG_SHIFT != kind)
        return false;
    *tag = pcs[--*depth];
    return true;
}

static struct alloc_place take_tags(const struct rewriting *rewriting, const uint64_t *pcs,
                                    uint32_t *depth) {
    struct alloc_place place = rewriting->untagged;
    uint64_t tag;
    if (!take_tag(ALLOC_TAG_PLACE, pcs, depth, &tag))
        return place;
    place.generation = (uint32_t)tag;
    place.end = tag >> 44 & 15;
    place.gap_at = (uint8_t)(tag >> 36);
    if (take_tag(ALLOC_TAG_CLOSES, pcs, depth, &tag))
        place.closes = (uint32_t)tag;
    return place;
}

/* The line without its LF, from '@' on. Returns the number of pcs; 0 if it is not a line of ours.
 */
static uint32_t read_pcs(const char *at, const char *stop, uint64_t pcs[MOST_PCS]) {
    uint32_t depth = 0;
    for (at++; at < stop && depth < MOST_PCS; depth++) {
        uint64_t pc = 0;
        const char *digits = " 0x";
        while (*digits && at < stop && *at == *digits)
            at++, digits++;
        if (*digits)
            return 0;
        for (; at < stop && *at != ' '; at++) {
            const char *all = "0123456789abcdef", *digit = memchr(all, *at, 16);
            if (!digit)
                return 0;
            pc = pc << 4 | (uint64_t)(digit - all);
        }
        pcs[depth] = pc;
    }
    return at == stop ? depth : 0;
}

static sonde_err write_stack(struct rewriting *rewriting, const char *line, const char *stop) {
    uint64_t pcs[MOST_PCS + 1];
    uint32_t depth = read_pcs(line, stop, pcs);
    struct alloc_place place = take_tags(rewriting, pcs, &depth);
    sonde_err err = heap_places_move(&rewriting->places, &place, pcs, &depth);
    if (depth == 0)
        sonde_buf_append(&rewriting->out, line, (size_t)(stop - line));
    else
        sonde_buf_putc(&rewriting->out, '@');
    for (uint32_t i = 0; i < depth; i++)
        sonde_buf_printf(&rewriting->out, " 0x%llx", (unsigned long long)pcs[i]);
    sonde_buf_putc(&rewriting->out, '\n');
    return err;
}

static sonde_err rewrite(struct rewriting *rewriting, struct sonde_slice text) {
    struct sonde_slice lines = heap_mapped_libraries(text);
    const char *at = text.data, *end = lines.data;
    sonde_err err = SONDE_OK;
    while (at < end && !err && !rewriting->out.failed) {
        const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
        if (*at == '@')
            err = write_stack(rewriting, at, stop);
        else
            sonde_buf_append(&rewriting->out, at, (size_t)(stop - at) + (feed != NULL));
        at = stop + 1;
    }
    if (lines.len > 0)
        heap_places_write(&rewriting->places, lines, &rewriting->out);
    return err || !rewriting->out.failed ? err : SONDE_TOO_LARGE;
}

/* Once our backtrace is in use, a stack without tags is a complete one in files that were mapped
 * from the start. Otherwise nothing is known about its time. */
static struct alloc_place place_of_untagged(const struct mapping_lives *lives, bool is_tagged) {
    bool is_known = is_tagged && lives && lives->oldest <= UINT32_MAX;
    return (struct alloc_place){.generation = is_known ? (uint32_t)lives->oldest : 0,
                                .closes = ALLOC_PLACE_SETTLED,
                                .end = RING_END_ROOT};
}

sonde_err heap_dump_settle(struct heap_text *text, const struct mapping_lives *lives,
                           struct sonde_diag *diag) {
    bool is_tagged = has_tags(text->bytes);
    struct rewriting rewriting = {.untagged = place_of_untagged(lives, is_tagged),
                                  .out.limit = HEAP_TEXT_MAX};
    struct generation *mapped = heap_mappings(heap_mapped_libraries(text->bytes));
    sonde_err err =
        mapped ? heap_places_init(&rewriting.places, lives, mapped) : SONDE_OUT_OF_MEMORY;
    bool is_needed = !err && (is_tagged || !rewriting.places.is_simple);
    if (is_needed)
        err = rewrite(&rewriting, text->bytes);
    generation_destroy(mapped);
    if (is_needed && !err) {
        heap_text_finish(text);
        text->copy = rewriting.out;
        text->bytes = sonde_buf_slice(&text->copy);
    } else {
        sonde_buf_finish(&rewriting.out);
    }
    return err ? sonde_fail(diag, err, "heap dump: %s", sonde_diag_text(NULL, err)) : SONDE_OK;
}
