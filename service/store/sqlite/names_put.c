/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores stacks, frames and their names once. A stack is the numbers of its frames. A frame's lines
 * are (function, file, line), as numbers of texts. Rows that contradict stored ones are
 * rejected. */
#include "service/store/ids.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/format/varint.h"

#include <string.h>

int64_t names_text_hash(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = text; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    return (int64_t)hash;
}

static uint32_t text_number(struct db *db, const char *text) {
    int64_t hash = names_text_hash(text); /* the texts are compared, too */
    int64_t number = db_number(db, 0, TEXT_FIND, "it", hash, text);
    if (number)
        return (uint32_t)number;
    db_run(db, TEXT_ADD, "it", hash, text);
    return (uint32_t)db_last_rowid(db);
}

static uint32_t module_number(struct db *db, const struct store_frame *frame) {
    int64_t number = db_number(db, 0, MODULE_FIND, "tt", frame->build_id, frame->module);
    if (number)
        return (uint32_t)number;
    db_run(db, MODULE_ADD, "tt", frame->build_id, frame->module);
    return (uint32_t)db_last_rowid(db);
}

static void encode_lines(struct db *db, const struct store_frame *frame, struct sonde_buf *buf) {
    const char *file = NULL;
    uint32_t file_number = 0;
    buf->len = 0;
    for (uint32_t i = 0; i < frame->line_count && !db->failure; i++) {
        const struct store_line *line = &frame->lines[i];
        if (!file || strcmp(file, line->file) != 0)
            file_number = text_number(db, line->file);
        file = line->file;
        varint_put(buf, text_number(db, line->function));
        varint_put(buf, file_number);
        varint_put(buf, line->line);
    }
}

/* Whether a stored module is the same file: frames' ids have the path only without a build-id. */
static bool same_module(struct db *db, int64_t number, const struct store_frame *frame) {
    sqlite3_stmt *row = db_start(db, MODULE_READ, "i", number);
    bool is_same = false;
    if (db_row(db, row))
        is_same = strcmp(db_text(row, 0), frame->build_id) == 0 &&
                  (frame->build_id[0] || strcmp(db_text(row, 1), frame->module) == 0);
    db_stop(row);
    return is_same;
}

struct stored_frame {
    int64_t number, module, version;
    uint64_t address;
    bool is_defined;
};

static struct stored_frame find_frame(struct db *db, uint64_t id) {
    struct stored_frame found = {0};
    sqlite3_stmt *row = db_start(db, FRAME_FIND, "i", (int64_t)id);
    if (db_row(db, row)) {
        found.number = sqlite3_column_int64(row, 0);
        found.is_defined = sqlite3_column_type(row, 1) != SQLITE_NULL;
        found.module = sqlite3_column_int64(row, 1);
        found.address = (uint64_t)sqlite3_column_int64(row, 2);
        found.version = sqlite3_column_int64(row, 4);
    }
    db_stop(row);
    return found;
}

static void put_frame(struct put *put, const struct store_frame *frame, struct sonde_buf *lines) {
    struct db *db = put->db;
    struct stored_frame stored = find_frame(db, frame->id);
    if (stored.is_defined &&
        (stored.address != frame->address || !same_module(db, stored.module, frame))) {
        put->result->rejected++;
        return;
    }
    if (stored.is_defined && frame->version <= stored.version)
        return;
    encode_lines(db, frame, lines);
    if (lines->failed)
        db_out_of_memory(db);
    if (stored.is_defined) {
        db_run(db, FRAME_RENAME, "iib", stored.number, (int64_t)frame->version,
               sonde_buf_slice(lines));
        return;
    }
    if (!stored.number)
        stored.number = numbers_frame(put->numbers, db, frame->id);
    db_run(db, FRAME_DEFINE, "iiiiib", stored.number, (int64_t)module_number(db, frame),
           (int64_t)frame->address, (int64_t)frame->kind, (int64_t)frame->version,
           sonde_buf_slice(lines));
}

void engine_put_frames(struct put *put) {
    struct sonde_buf lines = {0};
    for (size_t i = 0; i < put->batch->frame_count && !put->db->failure; i++)
        put_frame(put, &put->batch->frames[i], &lines);
    sonde_buf_finish(&lines);
}

/* Stores a stack's definition; false if there is another one. */
static bool define(struct db *db, int64_t key, uint64_t id, struct sonde_slice frames) {
    sqlite3_stmt *row = db_start(db, STACK_FIND, "iii", (int64_t)id, key, key);
    bool is_defined = false, is_same = true;
    if (db_row(db, row) && sqlite3_column_type(row, 1) != SQLITE_NULL) {
        struct sonde_slice stored = db_blob(row, 1);
        is_defined = true;
        is_same = stored.len == frames.len && !memcmp(stored.data, frames.data, frames.len);
    }
    db_stop(row);
    if (!is_defined)
        db_run(db, STACK_DEFINE, "ib", key, frames);
    return is_same;
}

static void put_stack(struct put *put, uint32_t service, const struct store_stack *stack,
                      struct sonde_buf *frames) {
    frames->len = 0;
    for (uint32_t i = 0; i < stack->frame_count && !put->db->failure; i++)
        varint_put(frames, numbers_frame(put->numbers, put->db, stack->frames[i]));
    if (frames->failed)
        db_out_of_memory(put->db);
    uint32_t number = numbers_stack(put->numbers, put->db, service, stack->id);
    if (!put->db->failure &&
        !define(put->db, key_stack(service, number), stack->id,
                (struct sonde_slice){frames->data ? frames->data : "", frames->len}))
        put->result->rejected++;
}

void engine_put_stacks(struct put *put) {
    struct sonde_buf frames = {0};
    const char *last = NULL;
    uint32_t service = 0;
    for (size_t i = 0; i < put->batch->stack_count && !put->db->failure; i++) {
        const struct store_stack *stack = &put->batch->stacks[i];
        if (!last || strcmp(last, stack->service) != 0)
            service = numbers_service(put->db, SERVICE_RECORDED, stack->service);
        last = stack->service;
        put_stack(put, service, stack, &frames);
    }
    sonde_buf_finish(&frames);
}

uint32_t engine_put_task(struct put *put, uint32_t service, const struct store_total *total) {
    char text[sizeof service + 2 * STORE_MAX_TEXT + 2];
    size_t process = strlen(total->process) + 1, thread = strlen(total->thread) + 1;
    memcpy(text, &service, sizeof service);
    memcpy(text + sizeof service, total->process, process);
    memcpy(text + sizeof service + process, total->thread, thread);
    struct sonde_slice key = {text, sizeof service + process + thread};
    uint32_t hash, number = numbers_task(put->numbers, key, &hash);
    if (number)
        return number;
    uint64_t id = store_frame_id("", "", store_frame_id("", total->process, 0, ""), total->thread);
    number = numbers_stack(put->numbers, put->db, service, id);
    define(put->db, key_stack(service, number), id,
           (struct sonde_slice){text + sizeof service, process + thread});
    if (!put->db->failure)
        numbers_set_task(put->numbers, key, hash, number);
    return number;
}
