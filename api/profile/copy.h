/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies parts of one profile into another. An id of `from` is translated when it is first needed
 * and then remembered, so only what is used is copied. Internal to api/profile. Thread safety: one
 * thread at a time. */
#ifndef SONDE_API_PROFILE_COPY_H
#define SONDE_API_PROFILE_COPY_H

#include "api/profile/profile_tables.h"

struct profile_copy {
    struct sonde_profile *into;
    const struct sonde_profile *from;
    /* Old id → new id, of strings new id + 1; 0 = not yet. A caller may enter others first. */
    uint32_t *strings, *mappings, *functions, *locations;
};

/* A translated sample and its storage. */
struct profile_copied_sample {
    struct sonde_sample sample; /* borrows from the arrays below */
    uint32_t locations[SONDE_PROFILE_MAX_DEPTH];
    struct sonde_label labels[SONDE_PROFILE_MAX_LABELS];
    int64_t values[SONDE_PROFILE_MAX_TYPES]; /* the first type_count are those of `from` */
};

/* Copies all mappings at once, because their order matters: the first one is the program. */
SONDE_MUST_USE sonde_err profile_copy_init(struct profile_copy *copy, struct sonde_profile *into,
                                           const struct sonde_profile *from);
/* The same without the mappings, which the caller enters. */
SONDE_MUST_USE sonde_err profile_copy_begin(struct profile_copy *copy, struct sonde_profile *into,
                                            const struct sonde_profile *from);
void profile_copy_finish(struct profile_copy *copy);
SONDE_MUST_USE sonde_err profile_copy_mapping(struct profile_copy *copy, uint32_t id);
SONDE_MUST_USE sonde_err profile_copy_location(struct profile_copy *copy, uint32_t id,
                                               uint32_t *new_id);
/* Copies `location`, a changed one of `from`, as the translation of the location `id`. */
SONDE_MUST_USE sonde_err profile_copy_location_as(struct profile_copy *copy, uint32_t id,
                                                  const struct sonde_location *location);
/* Translates the sample `index` of `from` without its first `skip` leaf locations, and the next one
 * without its first `lines` lines. Does not add it to `into`. */
SONDE_MUST_USE sonde_err profile_copy_sample(struct profile_copy *copy, size_t index, uint32_t skip,
                                             uint32_t lines, struct profile_copied_sample *out);
/* A profile without samples, with the types, info, comments and limit of `from`; NULL when out of
 * memory. */
struct sonde_profile *profile_copy_empty(const struct sonde_profile *from);
/* A copy with the samples that have is_wanted[index], and with one more comment (NULL: none). The
 * caller destroys *copy, which is NULL after an error. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err profile_copy_wanted(const struct sonde_profile *from,
                                             const bool *is_wanted, const char *comment,
                                             struct sonde_profile **copy);
bool profile_same_types(const struct sonde_profile *a, const struct sonde_profile *b);

#endif
