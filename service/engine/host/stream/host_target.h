/* SPDX-License-Identifier: Apache-2.0
 *
 * A host target is a struct target without a guest: one process, or several (enum host_members).
 * Its samples come from a stream (stream.h). Thread safety: engine thread only, unless a comment
 * says otherwise. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_HOST_TARGET_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_HOST_TARGET_H

#include "service/engine/core/target.h"

struct host_process;
struct host_stream;

/* Which processes a host target stands for. */
enum host_members {
    HOST_ONE = 0, /* target->process; the target ends with it, or when it calls exec */
    HOST_NAMED,   /* every process called `name` */
    HOST_TREE,    /* the process `pid` and all that it starts */
    HOST_EVERY,   /* every process of the machine */
};

/* What is sampled: CPU time (and waits), or a counted event. */
struct host_event {
    enum sonde_event_id id; /* ON_CPU, or the counted event */
    bool by_number;         /* periods are numbers of events, not nanoseconds */
};

/* The part of struct target that a host target has in addition (target->host). */
struct host_target {
    enum host_members members;
    pid_t pid;            /* ONE, TREE */
    uint64_t start_ticks; /* likewise */
    char name[64];        /* NAMED */
    uid_t owner;          /* only processes of this user, if has_owner */
    struct host_event event;
    bool has_owner;             /* this sonded, or the caller, may not look at others */
    struct host_stream *stream; /* while the clock runs */
    struct target *next;        /* in the stream */
    uint32_t answered;          /* the last request of the clock that was answered */
    uint64_t asked_ns;          /* when the clock asked last */
    uint64_t samples;           /* in the present drain of the stream */
    uint64_t accounted_ns;      /* when its budget was adjusted last */
    bool is_out_of_memory;      /* its clock cannot start */
    uint64_t over_ns;           /* when that was found; 0 = not yet */
    bool is_over;               /* the process has ended, or runs another program */
    bool has_execed;            /* it runs another program */
    uint64_t idle_since_ns;     /* no capture and no request; 0 = busy */
};

/* source.c: the source of host targets. See struct source_ops in target.h. */
extern const struct source_ops host_source;
/* The process is over: whether samples of it still wait for their tables. */
bool host_waits(struct target *target, uint64_t now_ns);

/* The outermost frame of a process's stacks: "name", or "name (pid)" where all have one name. */
void host_process_text(const struct host_target *host, const char *name, pid_t pid, char text[80]);

/* members.c: whether a process belongs to a target. Engine thread only; may read /proc once per
 * process. */
bool host_has_member(const struct target *target, struct host_process *process);

/* host.c: sampling from outside, as a part of the engine. */
SONDE_MUST_USE sonde_err host_create(struct engine *engine, struct sonde_diag *diag);
void host_destroy(struct engine *engine);
/* A ring is half full. */
void host_on_readable(struct engine *engine);

#endif
