/* SPDX-License-Identifier: Apache-2.0
 *
 * `bazel test` links this instead of libFuzzer. It runs the fuzz target on every corpus file, then
 * on a fixed number of mutated ones (flipped bits, changed, appended and removed bytes). The seed
 * is fixed, so that a run can be repeated. Its arguments are libFuzzer's: -runs=N, -max_len=N,
 * -seed=N, then corpus files. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_FILES 256

struct input {
    uint8_t *bytes;
    size_t size;
};

static struct input corpus[MAX_FILES];
static size_t corpus_count;
static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int corpus_add(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || corpus_count == MAX_FILES)
        return -1;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    struct input *input = &corpus[corpus_count++];
    input->bytes = malloc(size > 0 ? (size_t)size : 1);
    input->size = fread(input->bytes, 1, size > 0 ? (size_t)size : 0, file);
    fclose(file);
    return 0;
}

/* Applies one of five small mutations and returns the new size. The buffer has max_len bytes. */
static size_t mutate(uint8_t *bytes, size_t size, size_t max_len) {
    size_t at = size ? random_next() % size : 0;
    switch (random_next() % 5) {
    case 0:
        if (size)
            bytes[at] ^= (uint8_t)(1u << (random_next() % 8));
        return size;
    case 1:
        if (size)
            bytes[at] = (uint8_t)random_next();
        return size;
    case 2:
        return at;
    case 3:
        if (size < max_len)
            bytes[size++] = (uint8_t)random_next();
        return size;
    default: {
        static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
        size_t run = 1 + random_next() % 8;
        for (size_t i = at; i < size && i < at + run; i++)
            bytes[i] = edges[random_next() % sizeof edges];
        return size;
    }
    }
}

static void one_run(uint8_t *bytes, size_t max_len) {
    const struct input *base = &corpus[random_next() % corpus_count];
    size_t size = base->size < max_len ? base->size : max_len;
    memcpy(bytes, base->bytes, size);
    for (size_t i = 1 + random_next() % 6; i > 0; i--)
        size = mutate(bytes, size, max_len);
    uint8_t *exact = malloc(
        size ? size : 1); /* of the exact size, so that a sanitizer sees a read past the end */
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int argc, char **argv) {
    size_t runs = 10000, max_len = 4096;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = strtoul(argv[i] + 6, 0, 10);
        else if (strncmp(argv[i], "-max_len=", 9) == 0)
            max_len = strtoul(argv[i] + 9, 0, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            random_state ^= strtoul(argv[i] + 6, 0, 10) * 2654435761u;
        else if (corpus_add(argv[i]) != 0)
            return fprintf(stderr, "cannot read corpus file %s\n", argv[i]), 1;
    }
    if (corpus_count == 0)
        corpus[corpus_count++] = (struct input){(uint8_t *)"", 0};
    for (size_t i = 0; i < corpus_count; i++)
        LLVMFuzzerTestOneInput(corpus[i].bytes, corpus[i].size);
    uint8_t *bytes = malloc(max_len ? max_len : 1);
    for (size_t i = 0; i < runs; i++)
        one_run(bytes, max_len);
    free(bytes);
    for (size_t i = 0; i < corpus_count; i++)
        if (corpus[i].size)
            free(corpus[i].bytes);
    printf("%zu corpus files, %zu mutated runs\n", corpus_count, runs);
    return 0;
}
