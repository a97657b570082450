/* SPDX-License-Identifier: Apache-2.0
 *
 * Which hosts are this controller's, if several share them.
 *
 * A host that goes to another controller is first left in order: nothing more is read, and the call
 * ends when what was read is durable and acknowledged. So the host sends none of it again, and the
 * other controller does not deliver it beside this one's spool. */
#include "clients/collect/controller/controller_state.h"
#include "clients/collect/group/rendezvous.h"
#include "clients/collect/policy/backoff.h"

#include <stdlib.h>
#include <string.h>

#define LEAVE_MS 30000 /* then the call ends anyway, and the host sends the rest again */

static void free_members(char **members, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(members[i]);
    free(members);
}

void sharing_finish(struct controller *controller) {
    free_members(controller->members, controller->member_count);
    controller->members = NULL;
    controller->member_count = 0;
}

const char *sharing_owner(const struct controller *controller, const struct host *host) {
    const char *const *members = (const char *const *)controller->members;
    if (!controller->is_sharing)
        return controller->options.name;
    return controller->member_count
               ? members[rendezvous_choose(members, controller->member_count, host->name)]
               : "";
}

/* The share of each budget that this controller may use. */
static void set_share(struct controller *controller) {
    size_t own = 0, all = controller->host_count;
    for (size_t i = 0; i < all; i++)
        own += controller->hosts[i]->is_own;
    double share = all == 0 || !controller->is_sharing ? 1 : (double)(own ? own : 1) / (double)all;
    budget_set_share(controller->budget, share);
}

static void apply(struct controller *controller, struct host *host, int64_t now_ms) {
    bool was_own = host->is_own;
    host->is_own = strcmp(sharing_owner(controller, host), controller->options.name) == 0;
    if (host->is_own && !was_own)
        host->next_try_ms = now_ms + backoff_jitter_ms(backoff_spread_ms(controller->host_count));
    if (host->link)
        host->link->leave_ms = host->is_own ? 0 : was_own ? now_ms : host->link->leave_ms;
    if (!host->is_own && !host->link)
        host->state = HOST_ELSEWHERE;
    else if (host->is_own && host->state == HOST_ELSEWHERE)
        host->state = HOST_WAITING;
}

void sharing_apply(struct controller *controller) {
    int64_t now_ms = now_monotonic_ms();
    for (size_t i = 0; i < controller->host_count; i++)
        apply(controller, controller->hosts[i], now_ms);
    set_share(controller);
}

void sharing_apply_host(struct controller *controller, struct host *host) {
    apply(controller, host, now_monotonic_ms());
    set_share(controller);
}

void sharing_leave(struct link *link, int64_t now_ms) {
    bool is_drained = !link->outbox && !link->is_sending && link->given_seq <= link->acked_seq;
    if (link->leave_ms && (is_drained || now_ms - link->leave_ms > LEAVE_MS))
        link_break(link, SONDE_CANCELLED, "another controller has this host now");
}

void controller_share(struct controller *controller) {
    lock(controller);
    controller->is_sharing = true;
    sharing_apply(controller);
    unlock(controller);
}

void controller_set_members(struct controller *controller, const char *const *names, size_t count) {
    char **members = calloc(count + 1, sizeof *members);
    bool is_good = members != NULL;
    for (size_t i = 0; i < count && is_good; i++)
        is_good = (members[i] = strdup(names[i])) != NULL;
    lock(controller);
    if (is_good) {
        sharing_finish(controller);
        controller->members = members;
        controller->member_count = count;
        sharing_apply(controller);
    } else {
        log_line(controller, "no memory for the members of the group; they stay as they were");
    }
    unlock(controller);
    if (!is_good && members)
        free_members(members, count);
}
