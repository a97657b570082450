/* SPDX-License-Identifier: Apache-2.0
 *
 * Blobs of the history's file: the first byte says which kind the rest is. What can be decoded is
 * encoded and decoded again, and must then be the same. */
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/format/pack.h"
#include "service/store/sqlite/format/tally.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition)
        abort();
}

/* What every reader of a chunk relies on. */
static void check_chunk(const struct chunk *chunk) {
    size_t rows = 0;
    for (size_t i = 0; i < chunk->window_count; i++) {
        require(chunk->windows[i].first_row == rows);
        require(chunk->windows[i].weight > 0);
        rows += chunk->windows[i].row_count;
    }
    require(rows == chunk->row_count);
    for (size_t i = 0; i < rows; i++)
        require(chunk->rows[i].thread < chunk->threads.count);
}

static void fuzz_chunk(struct sonde_slice bytes) {
    struct chunk first = {0}, second = {0};
    struct sonde_buf buf = {0};
    (void)chunk_decode(&second, bytes, false);
    if (chunk_decode(&first, bytes, true)) {
        check_chunk(&first);
        chunk_encode(&first, &buf);
        require(!buf.failed && chunk_decode(&second, sonde_buf_slice(&buf), true));
        check_chunk(&second);
        require(second.row_count == first.row_count && second.window_count == first.window_count);
        for (size_t i = 0; i < first.window_count; i++) {
            const struct chunk_row *rows = &first.rows[first.windows[i].first_row];
            const struct chunk_row *again = &second.rows[second.windows[i].first_row];
            require(first.windows[i].row_count == second.windows[i].row_count);
            require(first.windows[i].samples == second.windows[i].samples);
            for (uint32_t row = 0; row < first.windows[i].row_count; row++)
                require(rows[row].stack == again[row].stack && rows[row].value == again[row].value);
        }
    }
    chunk_finish(&first);
    chunk_finish(&second);
    sonde_buf_finish(&buf);
}

static void fuzz_tally(struct sonde_slice bytes) {
    struct tally first = {0}, second = {0};
    struct sonde_buf buf = {0};
    if (tally_decode(&first, bytes)) {
        struct store_merge merge = {0};
        tally_encode(&first, &buf);
        require(!buf.failed && tally_decode(&second, sonde_buf_slice(&buf)));
        require(second.count == first.count && second.span_count == first.span_count);
        tally_report(&second, false, &merge);
    }
    tally_finish(&first);
    tally_finish(&second);
    sonde_buf_finish(&buf);
}

static void fuzz_pack(struct sonde_slice bytes) {
    struct packer packer = {0};
    struct sonde_slice raw = pack_expand(&packer, bytes);
    require(raw.len <= PACK_MAX_BYTES);
    if (raw.data && raw.len)
        fuzz_chunk(raw);
    pack_finish(&packer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    /* A copy of the exact size, so that a sanitizer sees a read past its end. */
    char *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    struct sonde_slice bytes = {copy, size - 1};
    if (data[0] % 3 == 0)
        fuzz_chunk(bytes);
    else if (data[0] % 3 == 1)
        fuzz_tally(bytes);
    else
        fuzz_pack(bytes);
    free(copy);
    return 0;
}
