/* SPDX-License-Identifier: Apache-2.0
 *
 * Which local user makes a call over loopback. gRPC does not hand out the connection's socket, only
 * the peer's address; the address of our own end is one of the listeners'. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_RPC_CORE_PEER_H
#define SONDE_SERVICE_RPC_CORE_PEER_H

#include "api/os/socket_peer.h"
#include "service/rpc/core/listen.h"

#include <sys/types.h>

/* peer: the text of grpc_call_get_peer, "ipv4:127.0.0.1:1234". False if it is not on loopback, or
 * if the kernel does not know who owns the peer's socket, or does not say; only then *refusal is
 * changed. */
bool rpc_peer_uid(const char *peer, const struct rpc_listeners *listeners, uid_t *uid,
                  struct socket_peer_refusal *refusal);

#endif
