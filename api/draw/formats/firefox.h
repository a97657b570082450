/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of Firefox's profile format: interned strings, the libraries, samples with their times,
 * and threads. Internal to api/draw/formats. */
#ifndef SONDE_API_DRAW_FORMATS_FIREFOX_H
#define SONDE_API_DRAW_FORMATS_FIREFOX_H

#include "api/draw/tree.h"
#include "api/profile/table.h"

/* Borrowed strings, numbered in the order of adding, each with a value of the caller's. */
struct firefox_text {
    const char *text;
    uint32_t value;
};
struct firefox_texts {
    struct profile_table table;
};

void firefox_texts_init(struct firefox_texts *texts);
void firefox_texts_finish(struct firefox_texts *texts);
/* The number of the text; PROFILE_TABLE_NONE if it was not added. */
uint32_t firefox_texts_find(const struct firefox_texts *texts, const char *text);
/* The same, but adds it with the value; PROFILE_TABLE_NONE when out of memory. */
uint32_t firefox_texts_add(struct firefox_texts *texts, const char *text, uint32_t value);
const struct firefox_text *firefox_texts_get(const struct firefox_texts *texts, uint32_t number);
void firefox_texts_put(const struct firefox_texts *texts, struct sonde_buf *out); /* JSON array */

/* Adds the base names of the profile's files; their values are ids of mappings. */
SONDE_MUST_USE sonde_err firefox_libs_fill(struct firefox_texts *libs,
                                           const struct sonde_profile *profile);
/* Appends the array "libs", in the order of the texts. */
void firefox_libs_put(const struct firefox_texts *libs, const struct sonde_profile *profile,
                      struct sonde_buf *out);

/* Some of a sample, with its time. */
struct firefox_event {
    uint32_t thread, node, bin;
    int64_t value;
};

/* Stores the samples of the profile's timeline in order of thread and bin, for the caller to free;
 * NULL if there is no timeline. thread_of is by node, leaves by sample. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err firefox_events(const struct sonde_profile *profile, size_t type_index,
                                        const uint32_t *leaves, const uint32_t *thread_of,
                                        struct firefox_event **events, size_t *count);

#define FIREFOX_NO_THREAD 0 /* the stacks that are below no thread */

struct firefox {
    const struct sonde_profile *profile;
    const struct draw_tree *tree;
    struct sonde_buf *out;
    size_t type_index;
    uint32_t *leaves; /* nodes by sample */
    struct firefox_texts libs;
    double to_ms; /* 0 = the values are not times */
    const char *weight_type;
    const char *process;
    /* Nodes by thread: of thread t, order[begin[t]] to order[begin[t + 1]]. */
    uint32_t *thread_of, *order, *begin, *thread_nodes;
    uint32_t thread_count; /* with FIREFOX_NO_THREAD */
    uint32_t current;      /* thread, while walking */
    uint32_t main_thread;
    uint32_t *row; /* by node: its stack in its thread; NOTHING = no stack */
    /* Of one thread. */
    struct firefox_texts strings, modules;
    uint32_t *function_of; /* by frame: its function, or NOTHING */
    uint32_t *functions;   /* frames by function */
    uint32_t function_count, stack_count;
    struct firefox_event *events; /* NULL if the profile has no timeline */
    size_t event_count;
};

/* Whether the node stands for a thread. */
bool firefox_is_thread(const struct firefox *state, uint32_t number);
/* Appends thread state->current, the index-th in the document. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err firefox_put_thread(struct firefox *state, const char *name,
                                            uint32_t index);

#endif
