/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile can be of many processes, which have the file at different addresses, and two of them
 * can have different files at one. So each mapping gets a range of addresses of its own in the
 * request, and the addresses move with it. Their low bits stay, from which the service tells the
 * size of a page. */
#include "clients/annotate/code_request.h"

#include <stdlib.h>

#define MAX_MAPPINGS  8192u
#define MAX_ADDRESSES 65536u
#define RANGE_BITS    40 /* of a mapping's own range */
#define KEPT_BITS     24
#define PAGE          4096u
#define WAIT_MS       60000u

struct code_request_origin {
    uint64_t start, limit, offset;
};

/* A range that begins at `start` in the profile gets this one. */
static uint64_t base_of(size_t number, uint64_t start) {
    return ((uint64_t)(number + 1) << RANGE_BITS) | (start & ((1ull << KEPT_BITS) - 1));
}

/* The addresses of a mapping without a range are offsets in the file, as the history has them. Any
 * page that has code places them. */
static struct sonde_mapping range_of(const struct sonde_mapping *mapping, uint64_t address) {
    struct sonde_mapping range = *mapping;
    if (mapping->limit == 0) {
        range.start = range.offset = address & ~(uint64_t)(PAGE - 1);
        range.limit = range.start + PAGE;
    }
    return range;
}

/* Returns the number of the range in the message, to which it is added if it is new; MAX_MAPPINGS
 * if there are too many. */
static size_t add_range(struct code_request *request, const struct sonde_mapping *range) {
    Sonde__V1__GetCodeRequest *message = &request->message;
    uint32_t hash = hash_index_words(&request->index,
                                     hash_index_mix(&request->index, range->start, range->limit),
                                     range->offset);
    struct hash_probe probe = hash_probe(hash);
    uint32_t known;
    while ((known = hash_index_next(&request->index, &probe)) != HASH_INDEX_NONE) {
        const struct code_request_origin *at = &request->origins[known];
        if (at->start == range->start && at->limit == range->limit && at->offset == range->offset)
            return known;
    }
    uint32_t number = (uint32_t)message->n_mappings;
    if (number == MAX_MAPPINGS)
        return number;
    hash_index_add(&request->index, hash, number); /* has room */
    Sonde__V1__SymbolMapping *to = &request->mappings[number];
    sonde__v1__symbol_mapping__init(to);
    to->start = base_of(number, range->start);
    to->limit = to->start + (range->limit - range->start);
    to->offset = range->offset;
    request->origins[number] =
        (struct code_request_origin){range->start, range->limit, range->offset};
    message->mappings[message->n_mappings++] = to;
    return number;
}

static sonde_err move(struct code_request *request, const struct sonde_location *at,
                      const struct sonde_profile *profile, uint64_t *address,
                      struct sonde_diag *diag) {
    *address = 0;
    if (!at->mapping)
        return SONDE_OK;
    struct sonde_mapping range = range_of(sonde_profile_mapping(profile, at->mapping), at->address);
    size_t number = add_range(request, &range);
    if (number == MAX_MAPPINGS)
        return sonde_fail(diag, SONDE_TOO_LARGE, "samples in more than %u mappings", MAX_MAPPINGS);
    *address = base_of(number, range.start) + (at->address - range.start);
    return SONDE_OK;
}

static sonde_err add_subject(struct code_request *request, const struct subject *subject,
                             struct sonde_diag *diag) {
    Sonde__V1__GetCodeRequest *message = &request->message;
    if (message->n_addresses + subject->count > MAX_ADDRESSES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "samples at more than %u addresses",
                          MAX_ADDRESSES);
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < subject->count && !err; i++) {
        const struct sonde_location *at =
            sonde_profile_location(subject->profile, subject->locations[i]);
        err =
            move(request, at, subject->profile, &message->addresses[message->n_addresses++], diag);
    }
    return err;
}

sonde_err code_request_init(struct code_request *request, const struct subject *const *subjects,
                            size_t subject_count, uint64_t function, struct sonde_diag *diag) {
    Sonde__V1__GetCodeRequest *message = &request->message;
    sonde__v1__get_code_request__init(message);
    request->mappings = calloc(MAX_MAPPINGS, sizeof *request->mappings);
    request->origins = calloc(MAX_MAPPINGS, sizeof *request->origins);
    message->mappings = calloc(MAX_MAPPINGS, sizeof *message->mappings);
    message->addresses = calloc(MAX_ADDRESSES, sizeof *message->addresses);
    hash_index_init(&request->index);
    sonde_err err = request->mappings && request->origins && message->mappings &&
                            message->addresses && hash_index_reserve(&request->index, MAX_MAPPINGS)
                        ? SONDE_OK
                        : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < subject_count && !err; i++)
        err = add_subject(request, subjects[i], diag);
    message->path = (char *)subjects[0]->path;
    message->build_id = (char *)subjects[0]->build_id;
    message->function = function;
    message->wait_ms = WAIT_MS;
    return err;
}

void code_request_finish(struct code_request *request) {
    free(request->mappings);
    free(request->origins);
    free(request->message.mappings);
    free(request->message.addresses);
    hash_index_finish(&request->index);
}
