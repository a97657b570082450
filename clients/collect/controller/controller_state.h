/* SPDX-License-Identifier: Apache-2.0
 *
 * What the controller's files share. All functions are called with the lock held, unless they say
 * otherwise. */
#ifndef SONDE_CLIENTS_COLLECT_CONTROLLER_CONTROLLER_STATE_H
#define SONDE_CLIENTS_COLLECT_CONTROLLER_CONTROLLER_STATE_H

#include "clients/collect/controller/controller.h"
#include "clients/collect/controller/report.h"
#include "clients/collect/host/decode.h"
#include "clients/collect/policy/breaker.h"
#include "clients/collect/policy/pause.h"

#include <pthread.h>
#include <stdbool.h>

#define MAX_RESEND_STACKS 10000

/* What a host's last CollectStatus said. */
struct host_status {
    uint32_t targets, not_drawn;
    uint64_t windows, acked_seq, next_seq, kept_bytes, merged_windows, lost_samples;
    struct loss lost[MAX_LOSSES];
    char trouble[256], refusal[256];
};

struct host {
    char *name, *address, *tls_name, *origin;
    struct dictionary_label *labels;
    size_t label_count;
    uint64_t number;    /* for the breaker */
    uint32_t refs;      /* the table, and its links */
    bool is_seen;       /* in the latest list, or registered */
    bool is_registered; /* it calls, and is not called */
    bool is_own;        /* this controller's, if several share the hosts */
    int64_t gone_ms;    /* when a registered host's call ended */
    enum host_state state;
    struct link *link; /* NULL = there is no call */
    uint32_t failures; /* in a row */
    int64_t next_try_ms;
    sonde_err last_code;
    char last_error[320];
    /* From hello. */
    char host[256], instance[64], version[64];
    uint32_t epoch;
    uint64_t source;
    uint64_t durable_seq;   /* of that source: what is safe here, whichever call it came from */
    char twin_trouble[384]; /* another host has the same instance; "" = none has */
    int64_t connected_unix_ns, clock_offset_ns, last_window_unix_ns;
    struct host_status status;
    struct loss lost_before[MAX_LOSSES]; /* by sessions that have ended */
    uint64_t windows, bytes_received;
    char **services;
    size_t service_count;
};

/* How a link's call is used; its side that was not called differs. */
struct link_transport {
    void (*send)(void *call, const ProtobufCMessage *message);
    void (*next)(void *call);
    /* The link's end follows. */
    void (*end)(void *call, sonde_err err, const char *text);
};

/* One call of Collect, or of RegisterHost. */
struct link {
    uint32_t refs; /* the call, and each entry in the spool */
    struct controller *controller;
    struct host *host;     /* referenced */
    struct client *client; /* NULL = the host called */
    const struct link_transport *transport;
    void *call; /* NULL = it has ended */
    struct link *next_ended;
    bool is_sending, has_hello, is_broken;
    bool is_reading; /* a message may arrive; otherwise `outbox` is full */
    struct decoder decoder;
    struct decoded_entry *outbox;               /* entries that the spool did not take yet */
    uint64_t given_seq, durable_seq, acked_seq; /* given: to the spool */
    int64_t leave_ms;          /* since when the host is another's; 0 = it is not */
    uint64_t settings_version; /* that the host has */
    uint64_t *resend;
    size_t resend_count;
    int64_t begin_ms, heard_ms;
};

struct controller {
    struct controller_options options;
    pthread_mutex_t lock;
    struct host **hosts; /* by name */
    size_t host_count;
    uint64_t next_number;
    struct link *ended; /* calls that are over; the main thread destroys their clients */
    size_t link_count;  /* that exist */
    struct passed passed;
    struct budget *budget;
    struct breaker *breaker;
    struct deliver *deliver;
    struct pause_switch *pause;
    uint32_t line_count; /* about single hosts, in the minute that began at lines_ms */
    int64_t lines_ms;
    bool is_paused, was_open, is_stopping;
    bool is_sharing;
    char **members; /* of the group, sorted */
    size_t member_count;
    char pause_reason[256];
    uint64_t settings_version;
    int64_t start_unix_ns;
    uint64_t windows, rows, samples, bytes_received, too_large;
    struct loss lost_by_gone[MAX_LOSSES]; /* of hosts that are no longer listed */
};

static inline void lock(struct controller *controller) {
    pthread_mutex_lock(&controller->lock);
}

static inline void unlock(struct controller *controller) {
    pthread_mutex_unlock(&controller->lock);
}

int64_t now_monotonic_ms(void);
int64_t now_unix_ns(void);
void log_line(struct controller *controller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same about one host; at most CONTROLLER_LINES a minute. */
void log_host(struct controller *controller, const struct host *host, const char *text);

/* Looks at the kill switch. */
void controller_watch_pause(struct controller *controller);

/* hosts.c */
/* The first call begins within spread_ms. */
struct host *host_create(struct controller *controller, const struct discovered_host *from,
                         uint32_t spread_ms);
void host_take(struct host *host);
void host_drop(struct host *host);
struct host *host_find(struct controller *controller, const char *name);
/* Takes hosts that nobody lists out of the table. */
void hosts_sweep(struct controller *controller);
/* Puts the host into the table, which owns it then. False when out of memory. */
bool hosts_insert(struct controller *controller, struct host *host);
/* Adds the windows that the host lost, by cause, in all its sessions. */
void host_losses(const struct host *host, struct loss lost[MAX_LOSSES]);
void losses_add(struct loss *to, const struct loss *from);
/* What is wrong with the host, or "". */
const char *host_trouble(const struct host *host);
bool host_is_well(const struct host *host);
/* After a hello: whether another host has the same instance. */
void hosts_note_twins(struct controller *controller, struct host *host);
void loss_add(struct loss *losses, const char *cause, uint64_t count);

/* link.c */
/* Starts a call to the host; a failure makes it wait. */
void link_start(struct controller *controller, struct host *host);
struct link *link_create(struct controller *controller, struct host *host);
/* A message of the host; false: the next is asked for later (link_retry). */
bool link_read(struct link *link, const Sonde__V1__CollectResponse *response);
void link_on_sent(struct link *link);
/* The call is over: the host waits for its next try. */
void link_on_end(struct link *link, sonde_err err, const char *text);
/* Sends what is due, if nothing is being sent. */
void link_send(struct link *link);
/* Gives the spool what it refused before. */
void link_retry(struct link *link);
/* Ends the call because of this side. */
void link_break(struct link *link, sonde_err err, const char *text);
void link_drop(struct link *link);

/* sharing.c: decides which hosts are this controller's: all, one. */
void sharing_apply(struct controller *controller);
void sharing_apply_host(struct controller *controller, struct host *host);
/* Whose host it is; "" = not known yet. */
const char *sharing_owner(const struct controller *controller, const struct host *host);
/* Ends the call to a host that is another's, when nothing of it is under way. */
void sharing_leave(struct link *link, int64_t now_ms);
void sharing_finish(struct controller *controller);

/* registered.c: forgets registered hosts that have been away for long. */
void registered_sweep(struct controller *controller, int64_t now_ms);

/* settings.c: the first request, and each later one that is due; NULL = nothing is. In the
 * arena. */
Sonde__V1__CollectRequest *settings_start(struct link *link, struct sonde_arena *arena);
Sonde__V1__CollectRequest *settings_next(struct link *link, struct sonde_arena *arena);

#endif
