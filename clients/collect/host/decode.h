/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns what a host sends in a call of Collect into requests for History.Write: numbers become ids
 * and texts, and each window gets its host, process and labels.
 *
 * Thread safety: one thread at a time per decoder. */
#ifndef SONDE_CLIENTS_COLLECT_HOST_DECODE_H
#define SONDE_CLIENTS_COLLECT_HOST_DECODE_H

#include "clients/collect/host/dictionary.h"
#include "clients/collect/host/passed.h"
#include "proto/sonde/v1/history.pb-c.h"

#define DECODE_ENTRY_BYTES (1u << 20)          /* an entry ends at about this size */
#define DECODE_MAX_ENTRY   ((4u << 20) - 4096) /* a larger window is not stored, but counted */
#define DECODE_MAX_LABELS  64                  /* of a window, as the store accepts them */

/* One packed WriteRequest. */
struct decoded_entry {
    struct decoded_entry *next;
    struct sonde_buf bytes;
    uint32_t windows;
    /* When it is durable, all windows and totals up to this seq are. 0 = more entries of the same
     * answer follow, or it has only definitions. */
    uint64_t last_seq;
};

void decoded_entry_free(struct decoded_entry *entry); /* and those after it; NULL is fine */

struct decoder {
    struct dictionary dictionary;
    struct passed *passed; /* the controller's; NULL = every definition is passed on */
    uint64_t source;
    uint32_t epoch;
    char host[256];
    struct dictionary_label *labels; /* of the machine: from hello, then from discovery; owned */
    size_t label_count;
    bool has_hello;
    uint64_t last_seq; /* of what was decoded, but is not yet in an entry's last_seq */
    uint64_t windows, rows, samples, too_large; /* so far; too_large: windows that fit no request */
};

/* The decoder begins with a hello. Definitions that `passed` has are left out of the entries; it
 * must outlive the decoder and may be shared. */
void decoder_init(struct decoder *decoder, struct passed *passed);
void decoder_finish(struct decoder *decoder);
/* A hello begins a session: everything before is void. name: the host's, if hello has none. extra:
 * labels from discovery. SONDE_PROTOCOL, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err decoder_hello(struct decoder *decoder,
                                       const Sonde__V1__CollectHello *hello, const char *name,
                                       const struct dictionary_label *extra, size_t extra_count,
                                       struct sonde_diag *diag);
/* The entries, in order, belong to the caller; NULL if there is nothing to store. on_window: for
 * counting; may be NULL. SONDE_PROTOCOL: end the call; what was decoded before is returned, too. */
SONDE_MUST_USE sonde_err
decoder_read(struct decoder *decoder, const Sonde__V1__CollectResponse *response,
             void (*on_window)(void *context, const Sonde__V1__StoredWindow *window), void *context,
             struct decoded_entry **entries, struct sonde_diag *diag);

#endif
