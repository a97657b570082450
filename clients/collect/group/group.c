/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/group/group.h"

#include "api/base/clock.h"
#include "clients/c/client.h"
#include "clients/collect/group/members.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RENEWALS    3 /* in the time of a lease */
#define ALONE       3 /* leases without an answer, until a new controller believes to be alone */
#define DEADLINE_MS 3000

struct group {
    struct group_options options;
    struct members members;
    size_t address; /* of History, which answered last */
    int64_t start_ms;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool is_stopping;
    char trouble[400];
};

static int64_t lease_ms(const struct group *group) {
    return (int64_t)group->options.lease_s * 1000;
}

/* ---- The lease ---- */

static sonde_err ask(const struct group *group, const char *address, uint32_t duration_s,
                     ProtobufCMessage **answer, struct sonde_diag *diag) {
    const struct group_options *from = &group->options;
    const struct client_options options = {
        .address = address,
        .token_file = from->token_file,
        .tls = from->tls,
        .server_name = from->server_name,
    };
    Sonde__V1__RenewLeaseRequest request = SONDE__V1__RENEW_LEASE_REQUEST__INIT;
    struct client *client = NULL;
    request.group = (char *)from->name;
    request.holder = (char *)from->own;
    request.duration_s = duration_s;
    sonde_err err = client_create(&options, &client, diag);
    if (!err)
        err = client_unary(client, &client_renew_lease, &request.base, DEADLINE_MS, answer, diag);
    client_destroy(client);
    return err;
}

/* Asks each History, beginning with the one that answered last. */
static sonde_err ask_any(struct group *group, uint32_t duration_s, ProtobufCMessage **answer,
                         struct sonde_diag *diag) {
    sonde_err err = SONDE_UNAVAILABLE;
    size_t count = group->options.address_count, first = group->address;
    for (size_t i = 0; i < count && err; i++) {
        group->address = (first + i) % count;
        *diag = (struct sonde_diag){0};
        err = ask(group, group->options.addresses[group->address], duration_s, answer, diag);
    }
    return err;
}

static void report_members(struct group *group) {
    const char *names[MEMBERS_MAX];
    char line[900];
    size_t len = (size_t)snprintf(line, sizeof line, "audit: group %s:", group->options.name);
    for (size_t i = 0; i < group->members.count; i++) {
        names[i] = group->members.items[i].name;
        if (len < sizeof line)
            len += (size_t)snprintf(line + len, sizeof line - len, " %s", names[i]);
    }
    group->options.log(line);
    group->options.on_change(group->options.context, names, group->members.count);
}

static void update(struct group *group, const Sonde__V1__RenewLeaseResponse *answer) {
    const char *names[MEMBERS_MAX];
    size_t count = 0;
    for (size_t i = 0; answer && i < answer->n_leases && count < MEMBERS_MAX; i++)
        names[count++] = answer->leases[i]->holder;
    if (members_update(&group->members, group->options.own, names, count, clock_ms(CLOCK_MONOTONIC),
                       lease_ms(group)))
        report_members(group);
}

static void set_trouble(struct group *group, const char *text) {
    pthread_mutex_lock(&group->lock);
    bool is_new = (group->trouble[0] == 0) != (text[0] == 0);
    snprintf(group->trouble, sizeof group->trouble, "%s", text);
    pthread_mutex_unlock(&group->lock);
    char line[500];
    snprintf(line, sizeof line, "group %s: %.300s", group->options.name,
             text[0] ? text : "the lease is renewed again");
    if (is_new)
        group->options.log(line);
}

static void renew(struct group *group) {
    struct sonde_diag diag = {0};
    ProtobufCMessage *answer = NULL;
    char text[400];
    sonde_err err = ask_any(group, group->options.lease_s, &answer, &diag);
    if (err)
        snprintf(text, sizeof text, "the lease is not renewed: %.300s",
                 sonde_diag_text(&diag, err));
    set_trouble(group, err ? text : "");
    bool knows_nobody = group->members.count == 0;
    if (!err)
        update(group, (const Sonde__V1__RenewLeaseResponse *)answer);
    else if (knows_nobody && clock_ms(CLOCK_MONOTONIC) - group->start_ms >= ALONE * lease_ms(group))
        update(group, NULL);
    if (answer)
        protobuf_c_message_free_unpacked(answer, NULL);
}

/* ---- The thread ---- */

/* Returns whether the group is stopping. */
static bool pause_for(struct group *group, int64_t ms) {
    const struct timespec until = clock_wait_end(ms);
    int error = 0;
    pthread_mutex_lock(&group->lock);
    while (!group->is_stopping && error == 0)
        error = pthread_cond_clockwait(&group->changed, &group->lock, CLOCK_MONOTONIC, &until);
    bool is_stopping = group->is_stopping;
    pthread_mutex_unlock(&group->lock);
    return is_stopping;
}

static void *run(void *context) {
    struct group *group = context;
    pthread_setname_np(pthread_self(), "group");
    do
        renew(group);
    while (!pause_for(group, lease_ms(group) / RENEWALS));
    struct sonde_diag diag = {0};
    ProtobufCMessage *answer = NULL;
    if (!group->trouble[0] && ask_any(group, 0, &answer, &diag) == SONDE_OK)
        protobuf_c_message_free_unpacked(answer, NULL);
    return NULL;
}

static bool is_name(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return len > 0 && len <= MEMBERS_MAX_NAME && name[len] == 0;
}

sonde_err group_start(const struct group_options *options, struct group **started,
                      struct sonde_diag *diag) {
    *started = NULL;
    if (!is_name(options->name) || !is_name(options->own))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s \"%.80s\": 1 to %d letters, digits and _.- are needed for a group",
                          is_name(options->name) ? "--name" : "--group",
                          is_name(options->name) ? options->own : options->name, MEMBERS_MAX_NAME);
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the group");
    group->options = *options;
    group->start_ms = clock_ms(CLOCK_MONOTONIC);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, NULL);
    if (pthread_create(&group->thread, NULL, run, group) != 0) {
        free(group);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "a thread cannot be started");
    }
    *started = group;
    return SONDE_OK;
}

void group_trouble(struct group *group, char *text, size_t size) {
    pthread_mutex_lock(&group->lock);
    snprintf(text, size, "%s", group->trouble);
    pthread_mutex_unlock(&group->lock);
}

void group_stop(struct group *group) {
    if (!group)
        return;
    pthread_mutex_lock(&group->lock);
    group->is_stopping = true;
    pthread_cond_signal(&group->changed);
    pthread_mutex_unlock(&group->lock);
    pthread_join(group->thread, NULL);
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    free(group);
}
