/* SPDX-License-Identifier: Apache-2.0
 *
 * The audit: one line for each call of a method that changes state (rpc_method.effect), with who
 * asked, what for, and how it ended:
 *
 *     audit: time=2026-11-24T13:40:00.123Z method=HeapActivate target="redis" uid=1000
 *         token="line 2 (read,control)" certificate="ops" peer=ipv4:127.0.0.1:41234
 *         for="uid 1001, from 127.0.0.1" result=OK
 *
 * (in one line, without the fields that are unknown). The caller claims `for`; the other fields
 * about who asked are verified. A call that may last for days, such as Collect, gets its line with
 * its first answer, others when they end. Lines have at most RPC_AUDIT_MAX_LINE bytes of printable
 * ASCII. Calls that fail share 60 lines a minute (line_limit.h); calls that succeed always get one.
 *
 * Thread safety: the loop's thread only. */
#ifndef SONDE_SERVICE_RPC_CORE_AUDIT_H
#define SONDE_SERVICE_RPC_CORE_AUDIT_H

#include "api/error.h"

#include <grpc/grpc.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#define RPC_AUDIT_MAX_LINE 1024
#define RPC_AUDIT_MAX_TEXT 128 /* of each field that others choose */

struct rpc_caller;
struct rpc_method;
struct rpc_server;

/* Of one call. The pointers are the call's; the texts are quoted already. */
struct rpc_audit {
    const struct rpc_method *method;
    const struct rpc_caller *caller;
    const char *note;
    grpc_call *core;
    bool is_written;
    char object[RPC_AUDIT_MAX_TEXT], claimed[RPC_AUDIT_MAX_TEXT];
};

/* Keeps on whose behalf the call is made. */
void rpc_audit_metadata(struct rpc_audit *audit, const grpc_metadata_array *metadata);
/* Keeps what the request is about; later requests of the call change nothing. NULL is fine. */
void rpc_audit_request(struct rpc_audit *audit, const ProtobufCMessage *request);
/* Writes the line, if the method changes state, the call has none yet, and the limit permits. */
void rpc_audit_write(struct rpc_server *server, struct rpc_audit *audit, sonde_err err);
/* Reports what the limit has left out. Before the loop ends. */
void rpc_audit_finish(struct rpc_server *server);

#endif
