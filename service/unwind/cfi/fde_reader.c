/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/fde_reader.h"

#include "api/base/array.h"

#include <stdlib.h>

#define MAX_SECTION      (512u << 20)
#define POINTER_ABSOLUTE 0x00
#define POINTER_OMIT     0xff
#define FEW_KINDS        16
#define AHEAD            4
#define RADIX_BITS       10
#define RADIX            (1u << RADIX_BITS)

/* One record; `body` is what follows its CIE pointer. */
struct record {
    uint32_t offset;
    bool is_cie;
    uint64_t cie_offset;
    struct cursor body;
};

/* Reads the record at cursor and moves behind it. False at the end of the section, or, with
 * cursor->failed, where it is broken. A record of length 0 ends an open-ended section; in others
 * linkers leave such records between objects, and they are skipped. */
static bool next_record(struct cursor *cursor, const struct cfi_section *section, bool open_ended,
                        struct record *record) {
    uint64_t len = 0;
    uint8_t offset_size = 4;
    while (len == 0) {
        if (cursor_left(cursor) < 4)
            return false;
        record->offset = (uint32_t)(cursor->at - section->data);
        len = cursor_length(cursor, &offset_size);
        if (cursor->failed || (len == 0 && open_ended))
            return false;
    }
    size_t id_bytes = section->debug ? offset_size : 4;
    if (len < id_bytes || len > cursor_left(cursor)) {
        cursor_fail(cursor);
        return false;
    }
    record->body = (struct cursor){cursor->at, cursor->at + len, false};
    cursor->at += len;
    uint64_t id_at = (uint64_t)(record->body.at - section->data);
    uint64_t id = cursor_uint(&record->body, id_bytes);
    record->is_cie = section->debug ? id == (id_bytes == 8 ? UINT64_MAX : UINT32_MAX) : id == 0;
    record->cie_offset = section->debug ? id : id_at - id;
    return true;
}

/* Reads the augmentation: its letters and, after a 'z', their data. An unknown letter makes the CIE
 * unusable, since the meaning of what follows is unknown. */
static void read_augmentation(struct cfi_cie *cie, struct cursor *body, const char *letters,
                              const struct cfi_section *section) {
    struct cursor data = *body;
    if (*letters == 'z') {
        cie->sized = true;
        uint64_t len = cursor_uleb(body);
        data.at = body->at;
        cursor_skip(body, len);
        data.end = body->at;
        letters++;
    }
    for (; *letters && !cie->bad; letters++) {
        uint8_t encoding;
        switch (*letters) {
        case 'R':
            cie->pointer_encoding = (uint8_t)cursor_uint(&data, 1);
            break;
        case 'L':
            cursor_skip(&data, 1);
            break;
        case 'P':
            encoding = (uint8_t)cursor_uint(&data, 1) & 0x7f;
            if (encoding != (POINTER_OMIT & 0x7f))
                unwind_cfi_pointer(&data, encoding & 0x0f, section);
            break;
        case 'S':
        case 'B': /* arm64: addresses are signed with key B */
        case 'G': /* arm64: the stack frame is tagged */
            break;
        default:
            cie->bad = true;
        }
    }
    cie->bad |= data.failed;
    if (!cie->sized)
        body->at = data.at;
}

static void read_cie(struct cfi_cie *cie, const struct record *record,
                     const struct cfi_section *section, struct cfi_memo *memo) {
    struct cursor body = record->body;
    cie->offset = record->offset;
    cie->pointer_encoding = POINTER_ABSOLUTE;
    uint8_t version = (uint8_t)cursor_uint(&body, 1);
    const char *letters = cursor_text(&body);
    if (version == 4) {
        cie->bad |= cursor_uint(&body, 1) != 8; /* address size */
        cie->bad |= cursor_uint(&body, 1) != 0; /* segment selector size */
    } else if (version != 1 && version != 3) {
        cie->bad = true;
    }
    cie->code_align = cursor_uleb(&body);
    cie->data_align = cursor_sleb(&body);
    uint64_t column = version == 1 ? cursor_uint(&body, 1) : cursor_uleb(&body);
    cie->bad |= column != cie->machine->return_address;
    read_augmentation(cie, &body, letters, section);
    cie->bad |= body.failed;
    if (!cie->bad)
        unwind_program_run_initial(memo, cie, body, section);
}

static bool is_of_kind(const struct cfi_cie *cie, const struct cfi_cie *other) {
    struct cfi_state initial = cie->initial;
    initial.cie = other->initial.cie;
    return !other->bad && cie->data_align == other->data_align &&
           memcmp(&initial, &other->initial, sizeof initial) == 0;
}

/* A file has few kinds of CIEs, and they come first. */
static void find_kind(const struct frames *frames, struct cfi_cie *cie) {
    for (size_t i = 0; i < FEW_KINDS && &frames->cies[i] < cie; i++) {
        if (!is_of_kind(cie, &frames->cies[i]))
            continue;
        cie->kind = cie->initial.cie = frames->cies[i].kind;
        return;
    }
}

static sonde_err add_cie(struct frames *frames, const struct record *record,
                         const struct cfi_section *section) {
    if (!array_room(&frames->cies, &frames->cie_capacity, frames->cie_count, 1))
        return SONDE_OUT_OF_MEMORY;
    struct cfi_cie *cie = &frames->cies[frames->cie_count];
    *cie = (struct cfi_cie){.kind = (uint32_t)frames->cie_count++, .machine = frames->machine};
    read_cie(cie, record, section, frames->memo);
    find_kind(frames, cie);
    return SONDE_OK;
}

/* Finds a CIE of the current section, whose CIEs start at index `first` and are sorted by offset.
 * NULL if none has this offset. */
static const struct cfi_cie *find_cie(const struct frames *frames, size_t first, uint64_t offset,
                                      const struct cfi_cie *last) {
    if (last && last->offset == offset)
        return last;
    size_t low = first, high = frames->cie_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (frames->cies[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < frames->cie_count && frames->cies[low].offset == offset ? &frames->cies[low]
                                                                         : NULL;
}

/* Cuts [start, start + len) at the end of the range of code that holds start. False if no range
 * does, or if nothing is left. */
static bool clip(const struct frames *frames, uint64_t start, uint64_t len,
                 struct frames_fde *fde) {
    uint64_t at = start - frames->origin;
    for (uint32_t i = 0; i < frames->range_count; i++) {
        if (at < frames->ranges[i].start || at >= frames->ranges[i].end)
            continue;
        fde->start = (uint32_t)at;
        fde->end = len < frames->ranges[i].end - at ? (uint32_t)(at + len) : frames->ranges[i].end;
        return len > 0;
    }
    return false;
}

static bool read_fde(const struct frames *frames, const struct cfi_section *section,
                     struct cursor body, const struct cfi_cie *cie, struct frames_fde *fde) {
    if (cie->bad)
        return false;
    uint64_t start = unwind_cfi_pointer(&body, cie->pointer_encoding, section);
    uint64_t len = unwind_cfi_pointer(&body, cie->pointer_encoding & 0x0f, section);
    if (cie->sized)
        cursor_skip(&body, cursor_uleb(&body));
    if (body.failed || !clip(frames, start, len, fde))
        return false;
    fde->cie = (uint32_t)(cie - frames->cies);
    fde->code = (uint32_t)(body.at - section->data);
    fde->code_bytes = (uint32_t)cursor_left(&body);
    return true;
}

static sonde_err add_fde(struct frames *frames, struct cursor body, const struct cfi_cie *cie) {
    uint32_t number = frames->section_count - 1;
    if (!array_room(&frames->fdes, &frames->fde_capacity, frames->fde_count, 1))
        return SONDE_OUT_OF_MEMORY;
    struct frames_fde *fde = &frames->fdes[frames->fde_count];
    fde->section = number;
    frames->fde_count += read_fde(frames, &frames->sections[number], body, cie, fde);
    return SONDE_OK;
}

/* Reads the section that is being added. *is_whole: the CIE of every function was found. */
static sonde_err add_records(struct frames *frames, size_t first_cie, bool open_ended,
                             bool with_cies, bool *is_whole) {
    const struct cfi_section *section = &frames->sections[frames->section_count - 1];
    struct cursor cursor = {section->data, section->data + section->size, false};
    const struct cfi_cie *cie = NULL;
    struct record record = {0};
    sonde_err err = SONDE_OK;
    *is_whole = true;
    while (!err && next_record(&cursor, section, open_ended, &record)) {
        if (record.is_cie) {
            err = with_cies ? add_cie(frames, &record, section) : SONDE_OK;
            cie = NULL; /* the array may have moved */
            continue;
        }
        cie = find_cie(frames, first_cie, record.cie_offset, cie);
        *is_whole &= cie != NULL;
        if (cie)
            err = add_fde(frames, record.body, cie);
    }
    return !err && cursor.failed && !open_ended ? SONDE_CORRUPT : err;
}

/* CIEs usually come before their functions. If one does not, the section is read again: all CIEs
 * are known then. */
sonde_err unwind_frames_add(struct frames *frames, const struct cfi_section *section,
                            bool open_ended) {
    size_t first_cie = frames->cie_count, first_fde = frames->fde_count;
    bool is_whole;
    if (section->size > MAX_SECTION || frames->section_count == 2)
        return SONDE_TOO_LARGE;
    if (!frames->memo && !(frames->memo = unwind_memo_create(section->size)))
        return SONDE_OUT_OF_MEMORY;
    frames->sections[frames->section_count++] = *section;
    sonde_err err = add_records(frames, first_cie, open_ended, true, &is_whole);
    if (err != SONDE_OK || is_whole)
        return err;
    frames->fde_count = first_fde;
    return add_records(frames, first_cie, open_ended, false, &is_whole);
}

/* One pass of a stable radix sort, over some bits of each key. */
static void radix_pass(const uint64_t *from, uint64_t *to, size_t count, unsigned shift) {
    uint32_t places[RADIX + 1] = {0};
    for (size_t i = 0; i < count; i++)
        places[(from[i] >> shift) % RADIX + 1]++;
    for (unsigned i = 0; i < RADIX; i++)
        places[i + 1] += places[i];
    for (size_t i = 0; i < count; i++)
        to[places[(from[i] >> shift) % RADIX]++] = from[i];
}

/* Returns the functions sorted by start, each as start << 32 | index; equal starts stay in the
 * order they were added. The caller frees *memory. NULL: out of memory. Many sections are sorted
 * already, which is checked first. */
static uint64_t *in_order(const struct frames *frames, uint64_t **memory) {
    size_t count = frames->fde_count;
    uint64_t *keys = *memory = malloc((count + 1) * 2 * sizeof *keys);
    if (!keys)
        return NULL;
    bool sorted = true;
    uint32_t bits = 0; /* set in any start */
    for (size_t i = 0; i < count; i++) {
        keys[i] = (uint64_t)frames->fdes[i].start << 32 | i;
        bits |= frames->fdes[i].start;
        sorted &= i == 0 || keys[i - 1] < keys[i];
    }
    uint64_t *from = keys, *to = keys + count;
    for (unsigned shift = 32; shift < 64 && bits && !sorted; shift += RADIX_BITS) {
        radix_pass(from, to, count, shift);
        uint64_t *swap = from;
        from = to;
        to = swap;
        bits >>= RADIX_BITS;
    }
    return from;
}

static void run_one(const struct frames *frames, const struct frames_fde *fde, uint32_t end,
                    struct unwind_rows *rows) {
    const struct cfi_section *section = &frames->sections[fde->section];
    const uint8_t *code = section->data + fde->code;
    struct unwind_rule change;
    uint32_t stays =
        frames->find_change ? frames->find_change(frames->context, fde->start, end, &change) : end;
    if (stays > fde->start)
        unwind_program_run(frames->memo, &frames->cies[fde->cie],
                           (struct cursor){code, code + fde->code_bytes, false}, section,
                           fde->start, stays, rows);
    if (stays < end)
        unwind_rows_add(rows, stays, &change);
    unwind_rows_gap(rows, end);
    rows->fde_count++;
}

/* Whether a function is dropped because of the one before it. */
static bool is_shadowed(const struct frames *frames, const struct frames_fde *fde,
                        const struct frames_fde *before) {
    if (!before)
        return false;
    return fde->start == before->start ||
           (frames->sections[fde->section].debug && !frames->sections[before->section].debug &&
            fde->start < before->end);
}

/* Records and code are in different orders, so both the list of functions and their programs are
 * read in jumps: prefetch them. */
static void prefetch(const struct frames *frames, const uint64_t *keys, size_t left) {
    if (left <= 2 * AHEAD)
        return;
    const struct frames_fde *next = &frames->fdes[(uint32_t)keys[AHEAD]];
    __builtin_prefetch(&frames->fdes[(uint32_t)keys[2 * AHEAD]]);
    __builtin_prefetch(frames->sections[next->section].data + next->code);
}

static void fill(const struct frames *frames, uint32_t from, uint32_t to,
                 struct unwind_rows *rows) {
    if (frames->fill && from < to)
        frames->fill(frames->context, from, to, rows);
}

/* Where the rows of a function end, before the next one's start. The return address of a signal's
 * handler is the first byte of a trampoline, and is looked up at the byte before. */
static uint32_t end_of(const struct frames *frames, const struct frames_fde *fde, uint32_t next) {
    uint32_t end = fde->end < next ? fde->end : next;
    bool is_cut = frames->begins_with_trampoline && end > fde->start + 1 && end < next &&
                  frames->begins_with_trampoline(frames->context, end, next);
    return end - is_cut;
}

sonde_err unwind_frames_run(struct frames *frames, struct unwind_rows *rows) {
    uint64_t *memory, *keys = in_order(frames, &memory);
    if (!keys)
        return SONDE_OUT_OF_MEMORY;
    const struct frames_fde *pending = NULL;
    uint32_t done = 0; /* up to where there are rows or gaps */
    for (size_t i = 0; i < frames->fde_count; i++) {
        const struct frames_fde *fde = &frames->fdes[(uint32_t)keys[i]];
        prefetch(frames, keys + i, frames->fde_count - i);
        if (is_shadowed(frames, fde, pending))
            continue;
        if (pending) {
            done = end_of(frames, pending, fde->start);
            run_one(frames, pending, done, rows);
        }
        fill(frames, done, fde->start, rows);
        pending = fde;
    }
    if (pending) {
        done = end_of(frames, pending, UINT32_MAX);
        run_one(frames, pending, done, rows);
    }
    fill(frames, done, UINT32_MAX, rows);
    free(memory);
    return rows->failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

void unwind_frames_finish(struct frames *frames) {
    unwind_memo_destroy(frames->memo);
    free(frames->cies);
    free(frames->fdes);
    *frames = (struct frames){0};
}
