/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile: pprof's model (github.com/google/pprof, proto/profile.proto) as an in-memory
 * builder.
 *
 * Strings, functions, locations and samples are interned: adding an equal one again gives the same
 * id, and equal samples (same locations and labels) add their values. Ids are dense from 0 in the
 * order of adding; string 0 is "", and mappings, functions and locations count from 1 as in pprof,
 * 0 meaning "none". Renderers (api/draw, pprof writer) read through the accessors below; what they
 * return is borrowed until the next change of the profile.
 *
 * Memory is bounded by `limit_bytes` given at creation: past it every add fails with
 * SONDE_TOO_LARGE and the profile stays valid. Thread safety: one thread at a time per profile. */
#ifndef SONDE_API_PROFILE_PROFILE_H
#define SONDE_API_PROFILE_PROFILE_H

#include "api/bytes.h"
#include "api/error.h"

#define SONDE_PROFILE_MAX_TYPES  4
#define SONDE_PROFILE_MAX_LABELS 16
#define SONDE_PROFILE_MAX_DEPTH  1024 /* locations of one sample */

struct sonde_profile;

/* type/unit in pprof's words: samples/count, cpu/nanoseconds, inuse_space/bytes. */
struct sonde_value_type {
    const char *type;
    const char *unit;
};

/* Whose code a frame is. DeepFlow's five kinds are told by it: application; library, "[l] name";
 * kernel, "[k] name"; a frame without lines but with a mapping is "[/path/file]"; and the thread,
 * "[t] name", is no frame here but the sample's labels "thread" and "tid". */
enum sonde_frame_kind {
    SONDE_FRAME_UNKNOWN = 0,
    SONDE_FRAME_APPLICATION, /* the main executable */
    SONDE_FRAME_LIBRARY,     /* a shared object */
    SONDE_FRAME_KERNEL,
    SONDE_FRAME_JIT,
    SONDE_FRAME_NOTE, /* not code: "[truncated]", "[blocked signals]" */
};

struct sonde_mapping {
    uint64_t start, limit, offset; /* runtime addresses of the target; limit is one past the end */
    uint32_t filename, build_id;   /* string ids; build_id in lower-case hex */
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

/* One address. lines[0] is the innermost inlined function, the last one holds the code; 0 lines =
 * no name known. */
struct sonde_location {
    uint32_t mapping; /* 0 = none */
    uint64_t address; /* runtime address inside the instruction: a return address minus one */
    uint32_t line_count;
    bool is_folded;
    enum sonde_frame_kind kind;
    const struct sonde_line *lines;
};

/* str != 0: a string label; otherwise num (with num_unit, may be 0). */
struct sonde_label {
    uint32_t key, str;
    int64_t num;
    uint32_t num_unit;
};

struct sonde_sample {
    const uint32_t *locations; /* location ids, leaf first */
    uint32_t location_count;
    uint32_t label_count;
    const int64_t *values; /* one a sample type */
    const struct sonde_label *labels;
    uint64_t sampled; /* how many takings the values rest on (heap: of what is in use); 0 = unknown.
                         Equal samples add theirs. Not in pprof's files */
};

/* Facts about the whole. Strings are string ids, 0 = none. */
struct sonde_profile_info {
    struct sonde_value_type period_type;
    int64_t period;
    int64_t time_unix_ns, duration_ns;
    uint32_t default_type; /* index of the sample type that viewers show first */
    /* The values estimate the whole, whatever the period was: they may be compared with others. */
    bool is_unbiased;
};

#define SONDE_PROFILE_NO_TYPE SIZE_MAX

/* types: 1..SONDE_PROFILE_MAX_TYPES, copied. limit_bytes 0 = 1 GiB. NULL when out of memory. */
struct sonde_profile *sonde_profile_create(const struct sonde_value_type *types, size_t type_count,
                                           size_t limit_bytes);
void sonde_profile_destroy(struct sonde_profile *profile);

/* Adding. All return SONDE_OK, SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE, or SONDE_INVALID_ARGUMENT for
 * an id that does not exist. Strings are copied; bytes that are not UTF-8 are stored escaped as
 * \xNN, control characters as spaces. */
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
/* The profile frees memory (of malloc) when it is destroyed; its bytes count against the limit. It
 * stays the caller's on failure. */
SONDE_MUST_USE sonde_err sonde_profile_adopt(struct sonde_profile *, void *memory, size_t bytes);
/* As add_sample, for one that is known to be equal to none that is there: nothing is looked up.
 * Its locations lie in adopted memory: they are not copied and must not change any more. */
SONDE_MUST_USE sonde_err sonde_profile_append_sample(struct sonde_profile *,
                                                     const struct sonde_sample *);
/* Makes room for that many samples at once. */
SONDE_MUST_USE sonde_err sonde_profile_expect_samples(struct sonde_profile *, uint32_t count);
SONDE_MUST_USE sonde_err sonde_profile_add_comment(struct sonde_profile *, const char *text);
void sonde_profile_set_info(struct sonde_profile *, const struct sonde_profile_info *);

/* Reading. */
const struct sonde_profile_info *sonde_profile_info(const struct sonde_profile *);
size_t sonde_profile_type_count(const struct sonde_profile *);
struct sonde_value_type sonde_profile_type(const struct sonde_profile *, size_t index);
/* The index of the sample type of that name, or SONDE_PROFILE_NO_TYPE. */
size_t sonde_profile_find_type(const struct sonde_profile *, const char *type);
size_t sonde_profile_string_count(const struct sonde_profile *);
const char *sonde_profile_text(const struct sonde_profile *, uint32_t id); /* "" for a bad id */
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
/* Sum of one value over all samples. */
int64_t sonde_profile_total(const struct sonde_profile *, size_t type_index);
/* The string label of a sample under key ("thread"), "" when it has none. */
const char *sonde_sample_label(const struct sonde_profile *, const struct sonde_sample *,
                               const char *key);

/* Adds every sample of `from`, times `scale` (1, or -1 for a difference). The sample types must be
 * equal by name: otherwise SONDE_INVALID_ARGUMENT. Comments and times of `into` stay; durations add
 * when scale > 0. */
SONDE_MUST_USE sonde_err sonde_profile_merge(struct sonde_profile *into,
                                             const struct sonde_profile *from, int64_t scale,
                                             struct sonde_diag *diag);

#endif
