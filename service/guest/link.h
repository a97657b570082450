/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's end of the socket to sonded: frames of proto/sonde/v1/guest.proto, some with a
 * descriptor. Reading never blocks. Writing waits up to LINK_PATIENCE_MS for a sonded that does not
 * read, and then hangs up. A frame that exceeds a bound or cannot be decoded ends the connection.
 * All memory is static. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_LINK_H
#define SONDE_SERVICE_GUEST_LINK_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>
#include <stddef.h>

#define LINK_FRAME_BYTES 16384u
#define LINK_DESCRIPTORS 64u /* received and not handed over yet */
#define LINK_PATIENCE_MS 2000

typedef sonde_guest_v1_FromGuest link_out;
typedef sonde_guest_v1_ToGuest link_in;

/* Connects to the socket at `path`, a file or "@name" for an abstract one; 0 or an errno. EPERM
 * with *uid: this user listens there and may not serve us (service/guest/process/peer.h). Otherwise
 * *uid may be UINT32_MAX. */
int link_open(const char *path, uint32_t *uid);
void link_close(void);
/* -1 when closed. */
int link_fd(void);
/* Whether the link is closed. Closes it if the application has taken its descriptor
 * (process/fds.h). */
bool link_lost(void);

/* A zeroed message to fill in; each call returns the same memory. */
link_out *link_message(void);
/* Sends link_message(), with a descriptor unless fd is -1; fd stays the caller's. False: the frame
 * was not sent. */
bool link_send(int fd);

/* Reads what has arrived and calls on_message for each whole message. on_message owns fd (-1 = none
 * came) and may close the link. Returns false if the connection has ended and is closed. */
typedef void link_on_message(const link_in *message, int fd);
bool link_receive(link_on_message *on_message);

#endif
