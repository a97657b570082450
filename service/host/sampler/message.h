/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies with descriptors over a SOCK_SEQPACKET socket. Any thread. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_MESSAGE_H
#define SONDE_SERVICE_HOST_SAMPLER_MESSAGE_H

#include "service/host/sampler/protocol.h"

/* Sends a reply and closes its descriptors. If the other end is gone, nothing is sent. */
void message_send(int socket, const struct sampler_reply *reply, const int *fds);
/* Receives one reply, with flags of recvmsg. Returns 0 with reply->fd_count descriptors
 * (close-on-exec), which the caller closes, or -errno: EAGAIN = there is none, EPIPE = the other
 * end is gone or has sent something else. reply->error is -EMFILE if this process has no room for
 * the descriptors. */
int message_receive(int socket, struct sampler_reply *reply, int fds[SAMPLER_MAX_FDS], int flags);

#endif
