/* SPDX-License-Identifier: Apache-2.0
 *
 * What the windows of a session refer to: texts, processes, frames and stacks, numbered from 1.
 * Each call of Collect is told a definition once: `stamp` says in which call that was.
 *
 * Thread safety: none (collect.h's lock). */
#ifndef SONDE_SERVICE_COLLECT_TABLES_H
#define SONDE_SERVICE_COLLECT_TABLES_H

#include "api/bytes.h"
#include "api/hash_index.h"
#include "service/store/store.h"

#define TABLES_BYTES        (32u << 20) /* beyond it, tables are rebuilt from what is kept */
#define TABLES_MAX_MAPPINGS 1024        /* of a process */

struct table_text {
    char *text;
    uint32_t stamp;
};

struct table_mapping {
    uint32_t build_id, path; /* texts */
    uint64_t start, end;
};

struct table_process {
    char *service, *instance;
    uint32_t pid, stamp;
    int64_t start_unix_ns;
    char **labels; /* name, value, name, ... */
    size_t label_count;
    struct table_mapping *mappings;
    size_t mapping_count;
    uint64_t dropped; /* samples of dropped windows that no other window has reported yet */
};

struct table_line {
    uint32_t function, file, line; /* texts */
};

struct table_frame {
    uint64_t id, address;
    uint32_t build_id, module, version, stamp; /* texts */
    enum sonde_frame_kind kind;
    struct table_line *lines;
    uint32_t line_count;
};

struct table_stack {
    uint64_t id;
    uint32_t *frames;
    uint32_t frame_count, stamp;
    uint32_t process; /* of the window that it was first seen in; 0 = in none yet */
};

/* items[0] is not used. */
struct tables {
    struct table_text *texts;
    struct table_process *processes;
    struct table_frame *frames;
    struct table_stack *stacks;
    uint32_t text_count, process_count, frame_count, stack_count; /* with item 0 */
    uint32_t text_room, process_room, frame_room, stack_room;
    struct hash_index text_index, process_index, frame_index, stack_index;
    size_t bytes;
};

void tables_init(struct tables *tables);
void tables_finish(struct tables *tables);

/* Each returns the number, or 0 when out of memory. "" is text 0. */
uint32_t tables_text(struct tables *tables, const char *text, bool *is_good);
uint32_t tables_process(struct tables *tables, const struct store_window *window);
/* A frame with better names replaces the one before. */
uint32_t tables_frame(struct tables *tables, const struct store_frame *frame);
/* 0 also if a frame of the stack is unknown. */
uint32_t tables_stack(struct tables *tables, const struct store_stack *stack);
/* 0 if there is none. */
uint32_t tables_find_stack(const struct tables *tables, uint64_t id);
uint32_t tables_find_process(const struct tables *tables, const char *instance);
/* The mapping of a process that a profile shows; a new one makes the process be told again. */
void tables_add_mapping(struct tables *tables, uint32_t process, const char *build_id,
                        const char *path, uint64_t start, uint64_t end);

/* Copies what a number of `from` means, with what it refers to. 0 when out of memory. */
uint32_t tables_copy_text(struct tables *to, const struct tables *from, uint32_t number,
                          bool *is_good);
uint32_t tables_copy_process(struct tables *to, const struct tables *from, uint32_t number);
uint32_t tables_copy_stack(struct tables *to, const struct tables *from, uint32_t number);

#endif
