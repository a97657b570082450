/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest protocol's frames (proto/sonde/v1/guest.proto) cut out of a byte stream and decoded,
 * without any I/O. A frame that breaks the format ends the stream for good: the caller disconnects.
 *
 * Descriptors come beside the bytes. frames_add_fd collects them in order (at most FRAMES_MAX_FDS
 * wait), a message that wants one takes the oldest, and whatever is left is closed by
 * frames_finish. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_GUEST_LINK_GUEST_FRAMES_H
#define SONDE_SERVICE_ENGINE_GUEST_LINK_GUEST_FRAMES_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/sonde/v1/guest.pb.h"

#define FRAMES_MAX_BYTES 16384u
#define FRAMES_MAX_FDS   4u
#define FRAMES_TO_BYTES  512u /* any ToGuest with its length */

typedef sonde_guest_v1_FromGuest frames_from_guest;
typedef sonde_guest_v1_ToGuest frames_to_guest;

struct frames {
    struct sonde_buf partial;
    int fds[FRAMES_MAX_FDS];
    uint32_t fd_count;
};

/* An error from the handler ends the stream too. */
typedef sonde_err frames_on_message(void *context, const frames_from_guest *message);

SONDE_MUST_USE sonde_err frames_feed(struct frames *frames, const char *data, size_t len,
                                     frames_on_message *on_message, void *context);
/* Takes fd. SONDE_PROTOCOL when too many wait: fd is closed then. */
SONDE_MUST_USE sonde_err frames_add_fd(struct frames *frames, int fd);
/* The oldest one, the caller's to close; -1 when none came. */
int frames_take_fd(struct frames *frames);
void frames_finish(struct frames *frames);

/* Length and message; returns the bytes written, 0 when it cannot be encoded. */
size_t frames_encode(const frames_to_guest *message, char out[FRAMES_TO_BYTES]);

#endif
