/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/read/chosen_stacks.h"

#include <stdlib.h>

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void read_service(struct chosen_stacks *chosen, struct scan *scan) {
    int64_t first = key_stack(scan->service, 0), last = key_stack(scan->service, KEY_MAX_STACK);
    free(chosen->is_chosen);
    chosen->service = scan->service;
    chosen->numbers = (size_t)(db_number(scan->db, first, STACK_LAST, "ii", first, last) - first);
    chosen->numbers++;
    chosen->is_chosen = calloc(chosen->numbers, sizeof *chosen->is_chosen);
    if (!chosen->is_chosen) {
        chosen->numbers = 0;
        db_out_of_memory(scan->db);
        return;
    }
    sqlite3_stmt *row = db_start(scan->db, STACK_IDS, "ii", first, last);
    while (db_row(scan->db, row)) {
        uint64_t number = (uint64_t)(sqlite3_column_int64(row, 0) - first);
        uint64_t id = (uint64_t)sqlite3_column_int64(row, 1);
        if (number < chosen->numbers)
            chosen->is_chosen[number] =
                chosen->count && bsearch(&id, chosen->ids, chosen->count, sizeof id, compare);
    }
}

bool chosen_stacks_has(struct chosen_stacks *chosen, struct scan *scan, uint64_t number) {
    if (chosen->service != scan->service || !chosen->is_chosen)
        read_service(chosen, scan);
    return number < chosen->numbers && chosen->is_chosen[number];
}

void chosen_stacks_finish(struct chosen_stacks *chosen) {
    free(chosen->is_chosen);
}
