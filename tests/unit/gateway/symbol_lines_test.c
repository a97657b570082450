/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/symbol_lines.h"

#include "tests/unit/check.h"

#include <string.h>

static const uint64_t addresses[] = {0x10, 0xffffffffffffffff, 0x0, 0x4abc};

static const char *lines(const Sonde__V1__SymbolizeResponse *response, bool outermost) {
    static struct sonde_buf out;
    sonde_buf_finish(&out);
    symbol_lines_append(&out, addresses, 4, response, outermost);
    return out.data ? out.data : "";
}

static char *names[] = {"main", "a--b", "two\nlines"};

static Sonde__V1__SymbolizeResponse tables(uint32_t *counts, size_t count, uint32_t *frames,
                                           size_t frame_count) {
    Sonde__V1__SymbolizeResponse response = SONDE__V1__SYMBOLIZE_RESPONSE__INIT;
    response.names = names;
    response.n_names = 3;
    response.frame_counts = counts;
    response.n_frame_counts = count;
    response.frames = frames;
    response.n_frames = frame_count;
    return response;
}

TEST(lines_share_the_names_of_a_response) {
    uint32_t counts[] = {2, 1, 0, 1}, frames[] = {1, 0, 2, 0};
    Sonde__V1__SymbolizeResponse response = tables(counts, 4, frames, 4);
    CHECK_STR(lines(&response, false),
              "0x10 a- -b--main\n0xffffffffffffffff two lines\n0x0 ??\n0x4abc main\n");
    CHECK_STR(lines(&response, true),
              "0x10 main\n0xffffffffffffffff two lines\n0x0 ??\n0x4abc main\n");
}

TEST(an_older_services_response_gives_the_same_lines) {
    Sonde__V1__SymbolFrame frames[3];
    Sonde__V1__SymbolFrame *chain[] = {&frames[1], &frames[0]}, *one[] = {&frames[2]};
    Sonde__V1__AddressSymbols symbols[4], *all[4];
    Sonde__V1__SymbolizeResponse response = SONDE__V1__SYMBOLIZE_RESPONSE__INIT;
    for (size_t i = 0; i < 3; i++) {
        sonde__v1__symbol_frame__init(&frames[i]);
        frames[i].name = names[i];
    }
    for (size_t i = 0; i < 4; i++) {
        sonde__v1__address_symbols__init(&symbols[i]);
        all[i] = &symbols[i];
    }
    symbols[0].frames = chain, symbols[0].n_frames = 2;
    symbols[1].frames = one, symbols[1].n_frames = 1;
    symbols[3].frames = chain + 1, symbols[3].n_frames = 1;
    response.symbols = all;
    response.n_symbols = 4;
    CHECK_STR(lines(&response, false),
              "0x10 a- -b--main\n0xffffffffffffffff two lines\n0x0 ??\n0x4abc main\n");
    CHECK_STR(lines(&response, true),
              "0x10 main\n0xffffffffffffffff two lines\n0x0 ??\n0x4abc main\n");
}

TEST(indexes_out_of_range_are_ignored) {
    uint32_t counts[] = {1, 4000000000, 3, 1, 7}, frames[] = {4000000000, 0, 3};
    Sonde__V1__SymbolizeResponse response = tables(counts, 5, frames, 3);
    CHECK_STR(lines(&response, false), "0x10 \n0xffffffffffffffff main--\n0x0 ??\n0x4abc ??\n");
    response.n_names = 0;
    response.names = NULL;
    CHECK_STR(lines(&response, false), "0x10 \n0xffffffffffffffff --\n0x0 ??\n0x4abc ??\n");
}

TEST(text_beyond_the_limit_fails_without_allocating) {
    static uint32_t counts[] = {100000}, frames[100000];
    static char long_name[5001];
    char *one[] = {long_name};
    struct sonde_buf out = {.limit = 1 << 20};
    Sonde__V1__SymbolizeResponse response = tables(counts, 1, frames, 100000);
    memset(long_name, 'x', sizeof long_name - 1);
    response.names = one;
    response.n_names = 1;
    symbol_lines_append(&out, addresses, 1, &response, false);
    CHECK(out.failed);
    CHECK_INT(out.capacity, <=, 1 << 20);
    sonde_buf_finish(&out);
}
