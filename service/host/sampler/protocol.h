/* SPDX-License-Identifier: Apache-2.0
 *
 * What sonded and the sampler say to each other over their SOCK_SEQPACKET socket, and the work
 * itself. Both are built together, so requests are plain structs; the sampler checks every
 * field. */
#ifndef SONDE_SERVICE_HOST_SAMPLER_PROTOCOL_H
#define SONDE_SERVICE_HOST_SAMPLER_PROTOCOL_H

#include "service/host/sampler/sampler.h"

#define SAMPLER_VERSION  0x534e4401u
#define SAMPLER_SOCKET   3 /* the descriptor in the sampler */
#define SAMPLER_MAX_FDS  4
#define SAMPLER_WORKER_S 4u /* the sampler gives up an operation after this time */

enum sampler_kind {
    SAMPLER_HELLO = 0, /* only the capabilities */
    SAMPLER_EVENT,
    SAMPLER_FILE,
    SAMPLER_OFF_CPU,
    SAMPLER_TRY_BPF,
    SAMPLER_KINDS
};

struct sampler_request {
    uint32_t version, sequence, kind;
    uint32_t file;
    int32_t pid;
    uint64_t start, end;
    struct perf_event_spec event;
    struct off_cpu_spec off_cpu;
};

/* With fd_count descriptors. sequence 0: the worker died; the request that it had is lost. */
struct sampler_reply {
    uint32_t sequence;
    int32_t error; /* 0 or -errno */
    uint32_t fd_count;
    uint64_t capabilities;
};

/* Checks a request and does what it asks for. Returns 0 with descriptors that the caller closes, or
 * -errno. */
int sampler_work(const struct sampler_request *request, int fds[SAMPLER_MAX_FDS],
                 uint32_t *fd_count);

#endif
