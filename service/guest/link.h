/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's end of the socket to sonded: frames of proto/sonde/v1/guest.proto with descriptors
 * beside them. Reading never blocks; writing waits at most LINK_PATIENCE_MS for a sonded that does
 * not read, then hangs up. A frame that breaks a bound or does not decode ends the connection.
 * Control thread only; all memory is static. */
#ifndef SONDE_SERVICE_GUEST_LINK_H
#define SONDE_SERVICE_GUEST_LINK_H

#include "proto/sonde/v1/guest.pb.h"

#include <stdbool.h>
#include <stddef.h>

#define LINK_FRAME_BYTES 16384u
#define LINK_DESCRIPTORS 64u
#define LINK_PATIENCE_MS 2000

typedef sonde_guest_v1_FromGuest link_out;
typedef sonde_guest_v1_ToGuest link_in;

/* 0 or an errno. path: of a file, or "@name". */
int link_open(const char *path);
void link_close(void);
/* -1 when closed. */
int link_fd(void);
/* Closed, or the host has taken its descriptor (fds.h): it is closed then. */
bool link_lost(void);

/* A zeroed message to fill; the same memory each time. */
link_out *link_message(void);
/* Sends link_message(), with a descriptor unless fd is -1. False: hung up. */
bool link_send(int fd);

/* Reads what is there and hands on each whole message; on_message takes fd (-1 = none came). False:
 * hung up (the connection is closed by then). on_message may close the link. */
typedef void link_on_message(const link_in *message, int fd);
bool link_receive(link_on_message *on_message);

#endif
