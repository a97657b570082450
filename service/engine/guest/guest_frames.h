/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a byte stream into the frames of the guest protocol (proto/sonde/v1/guest.proto) and
 * decodes them, without I/O. After an invalid frame the stream cannot be continued: the caller
 * disconnects the guest.
 *
 * Descriptors arrive beside the bytes. frames_add_fd queues them, at most FRAMES_MAX_FDS; a message
 * with a descriptor takes the oldest; frames_finish closes the others. Thread safety: one thread at
 * a time. */
#ifndef SONDE_SERVICE_ENGINE_GUEST_GUEST_FRAMES_H
#define SONDE_SERVICE_ENGINE_GUEST_GUEST_FRAMES_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/sonde/v1/guest.pb.h"

#define FRAMES_MAX_BYTES 16384u
#define FRAMES_MAX_FDS   4u
#define FRAMES_TO_BYTES  512u /* size of the largest ToGuest, including its length */

typedef sonde_guest_v1_FromGuest frames_from_guest;
typedef sonde_guest_v1_ToGuest frames_to_guest;

struct frames {
    struct sonde_buf partial;
    int fds[FRAMES_MAX_FDS];
    uint32_t fd_count;
    bool is_paused;
};

/* May set is_paused: then the frames that follow wait for the next call of frames_feed, which
 * clears it and may be without data. An error of the handler ends the stream, too. */
typedef sonde_err frames_on_message(void *context, const frames_from_guest *message);

SONDE_MUST_USE sonde_err frames_feed(struct frames *frames, const char *data, size_t len,
                                     frames_on_message *on_message, void *context);
/* Takes fd. SONDE_PROTOCOL if FRAMES_MAX_FDS are queued; fd is closed then. */
SONDE_MUST_USE sonde_err frames_add_fd(struct frames *frames, int fd);
/* Returns the oldest descriptor, which the caller closes; -1 when there is none. */
int frames_take_fd(struct frames *frames);
void frames_finish(struct frames *frames);

/* Writes the length and the message. Returns the number of bytes, 0 when it cannot be encoded. */
size_t frames_encode(const frames_to_guest *message, char out[FRAMES_TO_BYTES]);

#endif
