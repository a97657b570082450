/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: a recording (service/recording) whose store is a ring in memory, and the call that
 * empties it. Internal to service/collect.
 *
 * Two kinds of threads use a session: recordings', which put windows and ask what to record, and
 * those of calls. One lock, collect.h's, guards all sessions. Recordings are started and ended by
 * collect_tick, without the lock. */
#ifndef SONDE_SERVICE_COLLECT_SESSION_H
#define SONDE_SERVICE_COLLECT_SESSION_H

#include "api/base/container_of.h"
#include "service/collect/collect.h"
#include "service/collect/ring.h"
#include "service/collect/settings.h"
#include "service/locks.h"
#include "service/recording/identity.h"
#include "service/recording/recording.h"

#define SESSION_NAME       64
#define SESSION_CONTROLLER 255
#define SESSION_MAX_RESEND 10000
#define NS_PER_S           1000000000ll

struct collect {
    struct collect_options options;
    struct identity identity;
    char instance[33], host[256];
    struct lock lock;
    struct session *sessions;
    struct session *ended; /* the ticking thread's */
    pthread_t thread;
    pthread_cond_t changed; /* settings, or it is stopping */
    bool has_thread, is_stopping;
};

/* A finished recording that cannot be destroyed yet. */
struct retired {
    struct retired *next;
    struct recording *recording;
};

struct session {
    struct session *next;
    struct collect *collect;
    char name[SESSION_NAME + 1], controller[SESSION_CONTROLLER + 1];
    struct identity identity; /* of its windows */
    struct store store;       /* what its recording writes to */
    struct recording *recording;
    struct retired *retired;
    Sonde__V1__CollectSettings *settings; /* in effect */
    bool must_restart; /* the recording has other settings, or there is none yet */
    bool is_starting, has_logged;
    bool is_given_up; /* it ends at the next tick, and cannot be found */
    uint64_t next_seq, sent_seq, acked_seq, windows;
    struct tables tables;
    struct ring ring;
    struct collect_link *link;    /* NULL = no call */
    uint32_t links;               /* that there were */
    int64_t idle_since_ns;        /* monotonic */
    uint64_t reported_lost;       /* by the last status */
    uint32_t targets, not_drawn;  /* processes: recorded, and left out by the draw */
    char refusal[RECORD_REFUSAL]; /* why processes without the guest are not recorded */
};

struct collect_link {
    struct session *session;
    void (*wake)(void *context);
    void *context;
    uint32_t stamp;
    bool is_displaced, has_hello, has_settings;
    bool said_pending, said_targets, said_refusal; /* by the last status */
    uint64_t sent_seq;
    int64_t status_ns, allowance_ns; /* when: the last status, the last refill */
    double allowance;                /* bytes that may be sent */
    bool is_throttled;
    uint64_t *resend;
    size_t resend_count, resend_at;
};

static inline struct session *session_of(struct store *store) {
    return container_of(store, struct session, store);
}

/* With the lock held. */
struct session *session_find(struct collect *collect, const char *name);
/* NULL when out of memory. */
struct session *session_create(struct collect *collect, const char *name);
void session_ack(struct session *session, const Sonde__V1__CollectAck *ack);
/* At the start of a call. A controller that has windows which were never sent got them before this
 * machine, with sonded running, was set back to a snapshot: the numbers are taken, so the session
 * gets another source. */
void session_check_source(struct session *session, const Sonde__V1__CollectAck *ack);
uint64_t session_lost(const struct session *session);
/* The recording has not begun yet with its settings. */
bool session_is_pending(const struct session *session);
/* The call must send a status; `now_ns` on the monotonic clock. */
bool session_status_is_due(const struct collect_link *link, int64_t now_ns);
/* Fills an initialized message; texts are the session's or in the arena. */
void session_status(struct session *session, struct sonde_arena *arena,
                    Sonde__V1__CollectStatus *status);

/* Without the lock; by the ticking thread. Starts or ends the recording as the settings want. */
void session_apply(struct session *session);
/* Ends the recording and waits for its last windows. */
void session_finish(struct session *session);
void session_destroy(struct session *session); /* after engine_destroy, or when it is idle */
bool session_is_idle(struct session *session);

#endif
