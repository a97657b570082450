/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/demo/backend.h"

#include "clients/demo/frame.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES    (24u << 10)
#define SESSION_BYTES (8u << 10)
#define REPLY_MS      4
#define JOURNAL_US    1000

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

OWN_FRAME void wait_for_reply(void);
OWN_FRAME void query_database(void);
OWN_FRAME void write_journal(void);
OWN_FRAME void update_table(void);
OWN_FRAME void *store_page(void);
OWN_FRAME void *open_session(void);
OWN_FRAME void remember(struct backend *backend);

void wait_for_reply(void) {
    poll(NULL, 0, REPLY_MS);
    KEEP_FRAME();
}

void query_database(void) {
    wait_for_reply();
    KEEP_FRAME();
}

void write_journal(void) {
    usleep(JOURNAL_US);
    KEEP_FRAME();
}

void update_table(void) {
    pthread_mutex_lock(&table_lock);
    write_journal();
    pthread_mutex_unlock(&table_lock);
    KEEP_FRAME();
}

/* Written to, so that it is resident; without memory the request goes on without. */
static inline void *hold(size_t bytes) {
    void *block = malloc(bytes);
    if (block)
        memset(block, 1, bytes);
    return block;
}

void *store_page(void) {
    void *block = hold(PAGE_BYTES);
    KEEP_FRAME();
    return block;
}

void *open_session(void) {
    void *block = hold(SESSION_BYTES);
    KEEP_FRAME();
    return block;
}

void remember(struct backend *backend) {
    unsigned slot = backend->next++ % BACKEND_HELD;
    free(backend->pages[slot]);
    free(backend->sessions[slot]);
    backend->pages[slot] = store_page();
    backend->sessions[slot] = open_session();
    KEEP_FRAME();
}

void backend_serve(struct backend *backend) {
    query_database();
    remember(backend);
    update_table();
    KEEP_FRAME();
}

void backend_finish(struct backend *backend) {
    for (unsigned i = 0; i < BACKEND_HELD; i++) {
        free(backend->pages[i]);
        free(backend->sessions[i]);
    }
}
