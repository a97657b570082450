/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request of `demo --guide` does besides burning CPU time: it waits and it holds memory, in
 * functions that are known beforehand. docs/guide.md shows both.
 *
 *     backend_serve -> query_database -> wait_for_reply                 blocks for 4 ms
 *                   -> update_table   -> the lock of all workers        blocks while another has it
 *                                     -> write_journal, with the lock   blocks for 1 ms
 *                   -> remember       -> store_page      holds 24 KiB, 75 % of the memory
 *                                     -> open_session    holds  8 KiB, 25 % of the memory
 *
 * A worker holds the pages and sessions of its last BACKEND_HELD requests. Any thread, each with
 * its own struct backend. */
#ifndef SONDE_CLIENTS_DEMO_BACKEND_H
#define SONDE_CLIENTS_DEMO_BACKEND_H

#define BACKEND_HELD 256

/* Zeroed before its first use. */
struct backend {
    void *pages[BACKEND_HELD], *sessions[BACKEND_HELD];
    unsigned next;
};

void backend_serve(struct backend *backend);
void backend_finish(struct backend *backend);

#endif
