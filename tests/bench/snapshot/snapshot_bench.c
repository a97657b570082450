/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU time and memory for drawing a .heapsnapshot of a million objects on 100,000 stacks of 25
 * frames. It is written to /dev/null in the way the service writes it to a file. Goals: 1.5 s, and
 * 64 MiB more than the profile itself takes. */
#include "api/draw/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OBJECTS 1000000u
#define DEPTH   25u

static void must(sonde_err err) {
    if (err)
        abort();
}

static uint32_t location(struct sonde_profile *profile, uint32_t number) {
    char name[32];
    int len = snprintf(name, sizeof name, "function_%u", number);
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location place = {
        .address = 0x10000 + 16ull * number, .line_count = 1, .lines = &line};
    uint32_t id;
    must(sonde_profile_string(profile, name, (size_t)len, &function.name));
    must(sonde_profile_add_function(profile, &function, &line.function));
    must(sonde_profile_add_location(profile, &place, &id));
    return id;
}

/* As in a real program the outer frames are shared: 3 of 25 differ from stack to stack. */
static struct sonde_profile *make_profile(uint32_t stacks) {
    static const struct sonde_value_type types[] = {{"inuse_objects", "count"},
                                                    {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    uint32_t ids[4096], stack[DEPTH];
    for (uint32_t i = 0; i < 4096; i++)
        ids[i] = location(profile, i);
    for (uint32_t i = 0; i < stacks; i++) {
        for (uint32_t depth = 0; depth < DEPTH; depth++)
            stack[depth] =
                ids[depth > 2 ? depth : (((i >> (6 * depth)) & 63) | ((depth + 1) << 6))];
        const int64_t values[] = {OBJECTS / stacks, 64 * OBJECTS / stacks};
        struct sonde_sample sample = {.locations = stack,
                                      .location_count = DEPTH,
                                      .values = values,
                                      .sampled = OBJECTS / stacks};
        must(sonde_profile_add_sample(profile, &sample));
    }
    sonde_profile_set_info(profile, &(struct sonde_profile_info){.period_type = {"space", "bytes"},
                                                                 .period = 1,
                                                                 .default_type = 1});
    return profile;
}

static bool count_bytes(void *context, const char *bytes, size_t len) {
    *(size_t *)context += len;
    return true;
}

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double peak_mib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

int main(int argc, char **argv) {
    uint32_t stacks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000;
    struct sonde_profile *profile = make_profile(stacks);
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    size_t written = 0;
    const struct sonde_draw_sink sink = {count_bytes, &written};
    struct sonde_buf rest = {0};
    double before_mib = peak_mib(), before_s = cpu_s();
    options.sink = &sink;
    must(sonde_draw(profile, SONDE_FORMAT_HEAPSNAPSHOT, &options, &rest, NULL));
    printf("%u objects on %u stacks: %.1f MB in %.2f s; %.1f MiB at most, %.1f of them the "
           "profile's\n",
           OBJECTS, stacks, (double)(written + rest.len) / 1e6, cpu_s() - before_s, peak_mib(),
           before_mib);
    sonde_buf_finish(&rest);
    sonde_profile_destroy(profile);
    return 0;
}
