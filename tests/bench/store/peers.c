/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/store/peers.h"

#include "api/hash_index.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <zstd.h>

#define MINUTES  15
#define WINDOW_S 60

/* What is written for each stack, by (service, position of the stack). */
struct texts {
    char *data[MODEL_SERVICES][MODEL_STACKS];
    size_t len[MODEL_SERVICES][MODEL_STACKS];
    struct hash_index index; /* by the stack's id; numbers are service * MODEL_STACKS + stack */
    uint64_t ids[MODEL_SERVICES * MODEL_STACKS];
};

struct peer {
    const char *name, *schema, *insert, *query;
    size_t (*write)(char *text, const struct store_frame *const *frames, uint32_t count);
    bool is_compressed;
};

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Root first, as DeepFlow does. */
static size_t write_folded(char *text, const struct store_frame *const *frames, uint32_t count) {
    size_t len = 0;
    for (uint32_t i = count; i-- > 0;)
        len += (size_t)sprintf(text + len, "%s%s", len ? ";" : "", frames[i]->lines->function);
    return len;
}

static size_t write_arrays(char *text, const struct store_frame *const *frames, uint32_t count) {
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++)
        len += (size_t)sprintf(text + len, "%llx,", (unsigned long long)frames[i]->address);
    for (uint32_t i = 0; i < count; i++)
        len += (size_t)sprintf(text + len, "%s,", frames[i]->build_id);
    for (uint32_t i = 0; i < count; i++)
        len += (size_t)sprintf(text + len, "%s,", frames[i]->lines->function);
    for (uint32_t i = 0; i < count; i++)
        len +=
            (size_t)sprintf(text + len, "%s:%u,", frames[i]->lines->file, frames[i]->lines->line);
    return len;
}

static void make_text(struct texts *texts, const struct peer *peer, int service, size_t at,
                      const struct store_batch *names) {
    const struct store_stack *stack = &names->stacks[at];
    const struct store_frame *frames[64];
    for (uint32_t i = 0; i < stack->frame_count; i++) {
        size_t frame = 0;
        while (names->frames[frame].id != stack->frames[i])
            frame++;
        frames[i] = &names->frames[frame];
    }
    char text[64 * 256];
    size_t len = peer->write(text, frames, stack->frame_count);
    texts->data[service][at] = malloc(len + 1);
    texts->len[service][at] = len;
    memcpy(texts->data[service][at], text, len);
    uint32_t number = (uint32_t)(service * MODEL_STACKS) + (uint32_t)at;
    texts->ids[number] = stack->id;
    hash_index_add(&texts->index, hash_index_words(&texts->index, stack->id, 0), number);
}

static uint32_t find_text(const struct texts *texts, uint64_t id) {
    struct hash_probe probe = hash_probe(hash_index_words(&texts->index, id, 0));
    uint32_t number;
    while ((number = hash_index_next(&texts->index, &probe)) != HASH_INDEX_NONE)
        if (texts->ids[number] == id)
            break;
    return number;
}

static void insert_row(sqlite3_stmt *insert, const struct peer *peer, const struct texts *texts,
                       const struct store_window *window, uint32_t row) {
    static char packed[32768];
    uint32_t number = find_text(texts, window->stack[row]);
    const char *data = texts->data[number / MODEL_STACKS][number % MODEL_STACKS];
    size_t len = texts->len[number / MODEL_STACKS][number % MODEL_STACKS];
    if (peer->is_compressed) {
        len = ZSTD_compress(packed, sizeof packed, data, len, 1);
        data = packed;
    }
    sqlite3_bind_int64(insert, 1, window->begin_unix_s);
    sqlite3_bind_text(insert, 2, window->service, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 3, window->threads[window->thread[row]], -1, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 4, window->value[row]);
    sqlite3_bind_blob(insert, 5, data, (int)len, SQLITE_STATIC);
    sqlite3_step(insert);
    sqlite3_reset(insert);
}

/* Sums the rows of a service by stack; expanding each different one once. */
static size_t sum_rows(sqlite3_stmt *query, bool is_compressed) {
    struct hash_index index;
    static char *seen[MODEL_STACKS];
    static size_t lens[MODEL_STACKS];
    static int64_t sums[MODEL_STACKS];
    size_t count = 0;
    char text[32768];
    hash_index_init(&index);
    while (sqlite3_step(query) == SQLITE_ROW) {
        const char *data = sqlite3_column_blob(query, 0);
        size_t len = (size_t)sqlite3_column_bytes(query, 0);
        uint32_t hash = hash_index_data(&index, data, len), number;
        struct hash_probe probe = hash_probe(hash);
        while ((number = hash_index_next(&index, &probe)) != HASH_INDEX_NONE)
            if (lens[number] == len && memcmp(seen[number], data, len) == 0)
                break;
        if (number == HASH_INDEX_NONE) {
            number = (uint32_t)count++;
            hash_index_add(&index, hash, number);
            seen[number] = memcpy(malloc(len), data, len);
            lens[number] = len;
            sums[number] = 0;
            if (is_compressed)
                ZSTD_decompress(text, sizeof text, data, len);
        }
        sums[number] += sqlite3_column_int64(query, 1);
    }
    for (size_t i = 0; i < count; i++)
        free(seen[i]);
    hash_index_finish(&index);
    return count;
}

static void report(sqlite3 *db, const struct peer *peer, const char *path, double cpu,
                   double samples, uint64_t rows) {
    struct stat status = {0};
    sqlite3_stmt *query;
    sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    stat(path, &status);
    double bytes = (double)status.st_size;
    printf("put                       %6.2f M samples/s/core (%.2f M rows/s)\n",
           samples / cpu / 1e6, (double)rows / cpu / 1e6);
    printf("size                      %6.1f B/sample (%.0f B/row), %.0f MB/day\n", bytes / samples,
           bytes / (double)rows, bytes / 1e6 * 1440 / MINUTES);
    sqlite3_prepare_v2(db, peer->query, -1, &query, NULL);
    struct timespec before, after;
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        count = sum_rows(query, peer->is_compressed);
        clock_gettime(CLOCK_MONOTONIC, &after);
        sqlite3_reset(query);
    }
    printf("%-44s %7.1f ms  (%zu stacks)\n", "sums of the largest service, 15 min",
           (double)(after.tv_sec - before.tv_sec) * 1e3 +
               (double)(after.tv_nsec - before.tv_nsec) / 1e6,
           count);
    sqlite3_finalize(query);
}

static void run(struct model *model, const char *directory, const struct peer *peer) {
    static struct texts texts;
    char path[300];
    sqlite3 *db;
    sqlite3_stmt *insert;
    snprintf(path, sizeof path, "%s/peer.db", directory);
    hash_index_init(&texts.index);
    for (int service = 0; service < MODEL_SERVICES; service++) {
        struct store_batch names = model_names(model, service);
        for (size_t i = 0; i < names.stack_count; i++)
            make_text(&texts, peer, service, i, &names);
    }
    sqlite3_open(path, &db);
    sqlite3_exec(db, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    sqlite3_exec(db, peer->schema, NULL, NULL, NULL);
    sqlite3_prepare_v2(db, peer->insert, -1, &insert, NULL);
    double cpu = 0, samples = 0;
    uint64_t rows = 0;
    for (int minute = 0; minute < MINUTES; minute++) {
        struct store_batch batch = model_interval(model, MODEL_BEGIN + minute * WINDOW_S, WINDOW_S);
        double before = cpu_seconds();
        sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
        for (size_t i = 0; i < batch.window_count; i++) {
            samples += (double)batch.windows[i].samples;
            rows += batch.windows[i].row_count;
            for (uint32_t row = 0; row < batch.windows[i].row_count; row++)
                insert_row(insert, peer, &texts, &batch.windows[i], row);
        }
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        cpu += cpu_seconds() - before;
    }
    sqlite3_finalize(insert);
    printf("\n%s, %d minutes, windows of %d s\n", peer->name, MINUTES, WINDOW_S);
    report(db, peer, path, cpu, samples, rows);
    sqlite3_close(db);
    remove(path);
    for (int i = 0; i < MODEL_SERVICES * MODEL_STACKS; i++)
        free(texts.data[i / MODEL_STACKS][i % MODEL_STACKS]);
    hash_index_finish(&texts.index);
}

void peers_run(struct model *model, const char *directory) {
    static const struct peer peers[] = {
        {"DeepFlow's layout",
         "CREATE TABLE profile (time INTEGER, app_service TEXT, thread TEXT, value INTEGER,"
         " stack BLOB); CREATE INDEX by_service ON profile (app_service, time)",
         "INSERT INTO profile VALUES (?1, ?2, ?3, ?4, ?5)",
         "SELECT stack, value FROM profile WHERE app_service = 'service-0'", write_folded, true},
        {"Parca's layout",
         "CREATE TABLE stacktraces (time INTEGER, labels TEXT, value INTEGER, stacktrace BLOB)",
         "INSERT INTO stacktraces VALUES (?1, json_object('service', ?2, 'thread', ?3), ?4, ?5)",
         "SELECT stacktrace, sum(value) FROM stacktraces "
         "WHERE json_extract(labels, '$.service') = 'service-0' GROUP BY stacktrace",
         write_arrays, false}};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++)
        run(model, directory, &peers[i]);
}
