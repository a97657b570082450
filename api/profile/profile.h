/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile in memory: the model of pprof (github.com/google/pprof, proto/profile.proto).
 *
 * Strings, functions, locations and samples are interned: adding an equal one returns the existing
 * id. Samples with the same locations and labels are merged and their values added. Ids are dense
 * and in the order of adding. String 0 is "". Mappings, functions and locations count from 1 as in
 * pprof; 0 is "none". What the accessors return is borrowed until the profile is next changed.
 *
 * limit_bytes bounds the memory. When it is reached, adding fails with SONDE_TOO_LARGE and the
 * profile stays valid. Thread safety: one thread at a time per profile. */
#ifndef SONDE_API_PROFILE_PROFILE_H
#define SONDE_API_PROFILE_PROFILE_H

#include "api/bytes.h"
#include "api/error.h"

#define SONDE_PROFILE_MAX_TYPES  64
#define SONDE_PROFILE_MAX_LABELS 64
#define SONDE_PROFILE_MAX_DEPTH  1024 /* locations of one sample */

struct sonde_profile;
struct sonde_profile_sums; /* api/profile/sums.h */

/* As in pprof: samples/count, cpu/nanoseconds, inuse_space/bytes. */
struct sonde_value_type {
    const char *type;
    const char *unit;
};

/* Whose code a frame is. DeepFlow's kinds can be derived from it: application; library, "[l] name";
 * kernel, "[k] name"; and "[/path/file]" for a frame with a mapping but no lines. Its thread frame,
 * "[t] name", is stored as the sample's labels "thread" and "tid". */
enum sonde_frame_kind {
    SONDE_FRAME_UNKNOWN = 0,
    SONDE_FRAME_APPLICATION, /* the main executable */
    SONDE_FRAME_LIBRARY,     /* a shared object */
    SONDE_FRAME_KERNEL,
    SONDE_FRAME_JIT,
    SONDE_FRAME_NOTE, /* not code: "[truncated]", "[blocked signals]" */
};

struct sonde_mapping {
    uint64_t start, limit, offset; /* start and limit in the target; limit is exclusive */
    uint32_t filename, build_id;   /* string ids; build_id in lower-case hexadecimal */
    bool has_functions, has_filenames, has_line_numbers, has_inline_frames;
};

struct sonde_function {
    uint32_t name, system_name, filename; /* string ids */
    int64_t start_line;                   /* 0 = unknown */
};

struct sonde_line {
    uint32_t function; /* function id */
    int64_t line;      /* 0 = unknown */
};

/* An address. lines[0] is the innermost inlined function; the last line is the function that
 * contains the code. No lines = no name is known. */
struct sonde_location {
    uint32_t mapping; /* 0 = none */
    uint64_t address; /* in the target, inside the instruction: a return address minus one */
    uint32_t line_count;
    bool is_folded; /* several functions share the code; the name is one of theirs */
    enum sonde_frame_kind kind;
    const struct sonde_line *lines;
};

/* str != 0: a string label. Otherwise a number; num_unit may be 0. All are string ids but num. */
struct sonde_label {
    uint32_t key, str;
    int64_t num;
    uint32_t num_unit;
};

struct sonde_sample {
    const uint32_t *locations; /* location ids, leaf first */
    uint32_t location_count;
    uint32_t label_count;
    const int64_t *values; /* one per sample type */
    const struct sonde_label *labels;
    /* Number of samples taken that the values are estimated from (heap: of live objects); 0 =
     * unknown. Merged samples add theirs. Not stored in pprof files. */
    uint64_t sampled;
};

/* Metadata of the whole profile. */
struct sonde_profile_info {
    struct sonde_value_type period_type;
    int64_t period;
    int64_t time_unix_ns, duration_ns;
    uint32_t default_type; /* index of the sample type that viewers show first */
    /* The values are estimates of the totals, independent of the period, so profiles with different
     * periods can be compared. */
    bool is_unbiased;
};

#define SONDE_PROFILE_NO_TYPE SIZE_MAX

/* types: 1 to SONDE_PROFILE_MAX_TYPES, copied. limit_bytes 0 = 1 GiB. NULL when out of memory. */
struct sonde_profile *sonde_profile_create(const struct sonde_value_type *types, size_t type_count,
                                           size_t limit_bytes);
void sonde_profile_destroy(struct sonde_profile *profile);
/* Adds an owner: each owner destroys the profile, and the last one frees it. From now on nobody may
 * change it. Any thread. */
struct sonde_profile *sonde_profile_share(struct sonde_profile *profile);

/* Adding. Errors: SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE, and SONDE_INVALID_ARGUMENT for an id that
 * does not exist. Strings are copied, with invalid UTF-8 as \xNN and control characters as spaces.
 */
SONDE_MUST_USE sonde_err sonde_profile_string(struct sonde_profile *, const char *text, size_t len,
                                              uint32_t *id);
SONDE_MUST_USE sonde_err sonde_profile_add_mapping(struct sonde_profile *,
                                                   const struct sonde_mapping *, uint32_t *id);
SONDE_MUST_USE sonde_err sonde_profile_add_function(struct sonde_profile *,
                                                    const struct sonde_function *, uint32_t *id);
SONDE_MUST_USE sonde_err sonde_profile_add_location(struct sonde_profile *,
                                                    const struct sonde_location *, uint32_t *id);
SONDE_MUST_USE sonde_err sonde_profile_add_sample(struct sonde_profile *,
                                                  const struct sonde_sample *);
/* The same; *index is the number of the new sample, or of the one that it was merged with. */
SONDE_MUST_USE sonde_err sonde_profile_add_sample_at(struct sonde_profile *,
                                                     const struct sonde_sample *, uint32_t *index);
/* Takes over memory from malloc, which is freed with the profile; `bytes` count towards the limit.
 * On failure the caller keeps it. */
SONDE_MUST_USE sonde_err sonde_profile_adopt(struct sonde_profile *, void *memory, size_t bytes);
/* Like sonde_profile_add_sample, for a sample that is known to differ from all others; it is not
 * looked up. Its locations must be in adopted memory. They are not copied and must not change. */
SONDE_MUST_USE sonde_err sonde_profile_append_sample(struct sonde_profile *,
                                                     const struct sonde_sample *);
/* Reserves memory for that many samples. */
SONDE_MUST_USE sonde_err sonde_profile_expect_samples(struct sonde_profile *, uint32_t count);
SONDE_MUST_USE sonde_err sonde_profile_add_comment(struct sonde_profile *, const char *text);
void sonde_profile_set_info(struct sonde_profile *, const struct sonde_profile_info *);

/* Reading. */
size_t sonde_profile_bytes(const struct sonde_profile *); /* memory in use */
const struct sonde_profile_info *sonde_profile_info(const struct sonde_profile *);
size_t sonde_profile_type_count(const struct sonde_profile *);
struct sonde_value_type sonde_profile_type(const struct sonde_profile *, size_t index);
/* Index of the sample type with that name, or SONDE_PROFILE_NO_TYPE. */
size_t sonde_profile_find_type(const struct sonde_profile *, const char *type);
size_t sonde_profile_string_count(const struct sonde_profile *);
const char *sonde_profile_text(const struct sonde_profile *,
                               uint32_t id); /* "" for an unknown id */
size_t sonde_profile_mapping_count(const struct sonde_profile *);
size_t sonde_profile_function_count(const struct sonde_profile *);
size_t sonde_profile_location_count(const struct sonde_profile *);
size_t sonde_profile_sample_count(const struct sonde_profile *);
size_t sonde_profile_comment_count(const struct sonde_profile *);
const struct sonde_mapping *sonde_profile_mapping(const struct sonde_profile *, uint32_t id);
const struct sonde_function *sonde_profile_function(const struct sonde_profile *, uint32_t id);
const struct sonde_location *sonde_profile_location(const struct sonde_profile *, uint32_t id);
struct sonde_sample sonde_profile_sample(const struct sonde_profile *, size_t index);
const char *sonde_profile_comment(const struct sonde_profile *, size_t index);
/* The sum of a value over all samples, saturating. */
int64_t sonde_profile_total(const struct sonde_profile *, size_t type_index);
/* The string label of a sample with that key ("thread"); "" if it has none. */
const char *sonde_sample_label(const struct sonde_profile *, const struct sonde_sample *,
                               const char *key);

/* Adds every sample of `from`, with its values times `scale`: 1, or -1 for a difference. The
 * comments and the time of `into` stay; durations are added if scale is positive. Errors: those of
 * adding, and SONDE_INVALID_ARGUMENT if the sample types have different names. */
SONDE_MUST_USE sonde_err sonde_profile_merge(struct sonde_profile *into,
                                             const struct sonde_profile *from, int64_t scale,
                                             struct sonde_diag *diag);

/* Some types and a range of the samples of a profile. */
struct sonde_profile_part {
    size_t types[SONDE_PROFILE_MAX_TYPES], type_count;
    size_t first, end;                 /* of the samples; end is exclusive, and may be too large */
    const char *const *without_labels; /* keys, the last one NULL; NULL = all labels are kept */
    /* Subtracted, with the same types; NULL = nothing. What has shrunk is 0. */
    const struct sonde_profile_sums *before;
};

/* All types and samples. */
struct sonde_profile_part sonde_profile_everything(const struct sonde_profile *profile);

/* Copies a part with all it refers to. Samples that have no positive value in it are left out;
 * those that are equal without the labels are merged. The caller destroys *copy, which is NULL on
 * failure. Errors: those of adding, and SONDE_INVALID_ARGUMENT for a type that does not exist. */
SONDE_MUST_USE sonde_err sonde_profile_copy_part(const struct sonde_profile *profile,
                                                 const struct sonde_profile_part *part,
                                                 struct sonde_profile **copy);

#endif
