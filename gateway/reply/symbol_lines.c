/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/symbol_lines.h"

#include "gateway/request/symbol_body.h"

#include <stdlib.h>

#define ADDRESS_BYTES (sizeof "0x0123456789abcdef") /* with a space */

/* All names of a response, escaped once and concatenated. */
struct names {
    struct sonde_buf text;
    size_t *ends;
    size_t count;
};

static void append_address(struct sonde_buf *out, uint64_t address) {
    char text[ADDRESS_BYTES];
    size_t at = sizeof text;
    text[--at] = ' ';
    for (; address || at == sizeof text - 1; address >>= 4)
        text[--at] = "0123456789abcdef"[address & 0xf];
    text[--at] = 'x';
    text[--at] = '0';
    sonde_buf_append(out, text + at, sizeof text - at);
}

static size_t start_of(const struct names *names, uint32_t number) {
    return number ? names->ends[number - 1] : 0;
}

static size_t len_of(const struct names *names, uint32_t number) {
    return names->ends[number] - start_of(names, number);
}

static void append_name(struct sonde_buf *out, const struct names *names, uint32_t number) {
    if (number < names->count)
        sonde_buf_append(out, names->text.data + start_of(names, number), len_of(names, number));
}

/* frames: innermost first; the last one is the function that contains the code. */
static void append_line(struct sonde_buf *out, uint64_t address, const struct names *names,
                        const uint32_t *frames, size_t count, bool outermost) {
    append_address(out, address);
    for (size_t i = outermost && count ? count - 1 : 0; i < count; i++) {
        append_name(out, names, frames[i]);
        sonde_buf_puts(out, i + 1 < count ? "--" : "");
    }
    sonde_buf_puts(out, count ? "\n" : "??\n");
}

static void read_names(struct names *names, const Sonde__V1__SymbolizeResponse *response) {
    names->ends = calloc(response->n_names + 1, sizeof *names->ends);
    if (!names->ends)
        abort();
    for (; names->count < response->n_names; names->count++) {
        symbol_body_append_name(&names->text, response->names[names->count]);
        names->ends[names->count] = names->text.len;
    }
}

/* Reserves about the whole size, because growing copies the buffer. */
static void reserve(struct sonde_buf *out, const struct names *names,
                    const Sonde__V1__SymbolizeResponse *response) {
    size_t total = response->n_frame_counts * ADDRESS_BYTES;
    for (size_t i = 0; i < response->n_frames; i++)
        if (response->frames[i] < names->count)
            total += len_of(names, response->frames[i]) + 2;
    if (sonde_buf_extend(out, total))
        out->len -= total;
}

static void append_from_tables(struct sonde_buf *out, const uint64_t *addresses, size_t count,
                               const Sonde__V1__SymbolizeResponse *response, bool outermost) {
    struct names names = {.count = 0};
    size_t at = 0;
    read_names(&names, response);
    reserve(out, &names, response);
    for (size_t i = 0; i < response->n_frame_counts && i < count; i++) {
        size_t left = response->n_frames - at, frames = response->frame_counts[i];
        frames = frames < left ? frames : left;
        append_line(out, addresses[i], &names, response->frames + at, frames, outermost);
        at += frames;
    }
    sonde_buf_finish(&names.text);
    free(names.ends);
}

static void append_whole(struct sonde_buf *out, uint64_t address,
                         const Sonde__V1__AddressSymbols *found, bool outermost) {
    size_t count = found->n_frames;
    append_address(out, address);
    for (size_t i = outermost && count ? count - 1 : 0; i < count; i++) {
        symbol_body_append_name(out, found->frames[i]->name);
        sonde_buf_puts(out, i + 1 < count ? "--" : "");
    }
    sonde_buf_puts(out, count ? "\n" : "??\n");
}

void symbol_lines_append(struct sonde_buf *out, const uint64_t *addresses, size_t count,
                         const Sonde__V1__SymbolizeResponse *response, bool outermost) {
    if (response->n_frame_counts) {
        append_from_tables(out, addresses, count, response, outermost);
        return;
    }
    for (size_t i = 0; i < response->n_symbols && i < count; i++)
        append_whole(out, addresses[i], response->symbols[i], outermost);
}
