/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of hosts, sorted by name. */
#include "clients/collect/controller/controller_state.h"
#include "clients/collect/policy/backoff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void loss_add(struct loss *losses, const char *cause, uint64_t count) {
    for (size_t i = 0; i < MAX_LOSSES; i++) {
        if (losses[i].cause[0] && strcmp(losses[i].cause, cause) != 0)
            continue;
        snprintf(losses[i].cause, sizeof losses[i].cause, "%s", cause);
        losses[i].count += count;
        return;
    }
    losses[MAX_LOSSES - 1].count += count; /* too many causes: they share the last */
}

void losses_add(struct loss *to, const struct loss *from) {
    for (size_t i = 0; i < MAX_LOSSES; i++)
        if (from[i].count > 0)
            loss_add(to, from[i].cause, from[i].count);
}

void host_losses(const struct host *host, struct loss lost[MAX_LOSSES]) {
    losses_add(lost, host->lost_before);
    losses_add(lost, host->status.lost);
}

/* ---- One host ---- */

static char *dup(const char *text) {
    return text ? strdup(text) : NULL;
}

static void free_labels(struct dictionary_label *labels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((char *)labels[i].name);
        free((char *)labels[i].value);
    }
    free(labels);
}

static void free_host(struct host *host) {
    free(host->name);
    free(host->address);
    free(host->tls_name);
    free(host->origin);
    free_labels(host->labels, host->label_count);
    for (size_t i = 0; i < host->service_count; i++)
        free(host->services[i]);
    free(host->services);
    free(host);
}

void host_take(struct host *host) {
    host->refs++;
}

void host_drop(struct host *host) {
    if (--host->refs == 0)
        free_host(host);
}

/* Takes over a source's labels and names of a host, which may have changed. Returns false when out
 * of memory. */
static bool describe(struct host *host, const struct discovered_host *from) {
    char *address = dup(from->address), *tls_name = dup(from->tls_name),
         *origin = dup(from->origin);
    struct dictionary_label *labels = calloc(from->label_count + 1, sizeof *labels);
    bool is_good = address && origin && labels && (tls_name || !from->tls_name);
    for (size_t i = 0; i < from->label_count && is_good; i++) {
        labels[i] =
            (struct dictionary_label){dup(from->labels[i].name), dup(from->labels[i].value)};
        is_good = labels[i].name && labels[i].value;
    }
    if (!is_good) {
        free(address);
        free(tls_name);
        free(origin);
        if (labels)
            free_labels(labels, from->label_count);
        return false;
    }
    free(host->address);
    free(host->tls_name);
    free(host->origin);
    free_labels(host->labels, host->label_count);
    host->address = address;
    host->tls_name = tls_name;
    host->origin = origin;
    host->labels = labels;
    host->label_count = from->label_count;
    return true;
}

struct host *host_create(struct controller *controller, const struct discovered_host *from,
                         uint32_t spread_ms) {
    struct host *host = calloc(1, sizeof *host);
    if (!host)
        return NULL;
    host->refs = 1;
    host->is_own = !controller->is_sharing;
    host->number = ++controller->next_number;
    host->name = strdup(from->name);
    host->next_try_ms = now_monotonic_ms() + backoff_jitter_ms(spread_ms);
    if (host->name && describe(host, from))
        return host;
    host_drop(host);
    return NULL;
}

/* ---- The table ---- */

static int by_name(const void *left, const void *right) {
    return strcmp((*(struct host *const *)left)->name, (*(struct host *const *)right)->name);
}

struct host *host_find(struct controller *controller, const char *name) {
    struct host key = {.name = (char *)name}, *wanted = &key;
    struct host **found = controller->host_count
                              ? bsearch(&wanted, controller->hosts, controller->host_count,
                                        sizeof *controller->hosts, by_name)
                              : NULL;
    return found ? *found : NULL;
}

/* Machines with one instance were made from one image, or one machine is listed twice. */
static void note_twin(struct controller *controller, struct host *host) {
    const struct host *twin = NULL;
    bool is_news = !host->twin_trouble[0];
    for (size_t i = 0; i < controller->host_count && host->instance[0] && !twin; i++) {
        const struct host *other = controller->hosts[i];
        if (other != host && other->state != HOST_ELSEWHERE &&
            strcmp(other->instance, host->instance) == 0)
            twin = other;
    }
    host->twin_trouble[0] = 0;
    if (!twin)
        return;
    snprintf(host->twin_trouble, sizeof host->twin_trouble,
             "same identity as host %.100s: listed twice, or a clone; if so, delete collect/source "
             "in its data directory and restart sonded",
             twin->name);
    if (is_news)
        log_host(controller, host, host->twin_trouble);
}

static void note_twins(struct controller *controller) {
    for (size_t i = 0; i < controller->host_count; i++)
        if (controller->hosts[i]->twin_trouble[0])
            note_twin(controller, controller->hosts[i]);
}

void hosts_note_twins(struct controller *controller, struct host *host) {
    note_twin(controller, host);
    for (size_t i = 0; i < controller->host_count && host->twin_trouble[0]; i++)
        if (strcmp(controller->hosts[i]->instance, host->instance) == 0)
            note_twin(controller, controller->hosts[i]);
    note_twins(controller);
}

static void forget(struct controller *controller, struct host *host) {
    struct loss lost[MAX_LOSSES] = {{.count = 0}};
    breaker_forget(controller->breaker, host->number);
    host_losses(host, lost);
    losses_add(controller->lost_by_gone, lost);
    if (host->link)
        link_break(host->link, SONDE_CANCELLED, "the host is no longer listed");
    host_drop(host);
}

void hosts_sweep(struct controller *controller) {
    size_t kept = 0;
    for (size_t i = 0; i < controller->host_count; i++) {
        if (controller->hosts[i]->is_seen)
            controller->hosts[kept++] = controller->hosts[i];
        else
            forget(controller, controller->hosts[i]);
    }
    controller->host_count = kept;
    note_twins(controller);
}

/* A call to an address that has changed ends. A host that registered and is listed now is called.
 */
static void update(struct controller *controller, struct host *host,
                   const struct discovered_host *from) {
    bool has_moved = host->is_registered || strcmp(host->address, from->address) != 0;
    host->is_seen = true;
    host->is_registered = false;
    if (!describe(host, from))
        log_line(controller, "no memory for the description of host %s", host->name);
    if (has_moved && host->link)
        link_break(host->link, SONDE_CANCELLED, "the host has another address now");
    if (has_moved)
        host->next_try_ms = now_monotonic_ms();
}

static struct host **merge(struct controller *controller, const struct discovered_hosts *list,
                           size_t *count) {
    struct host **hosts =
        calloc(controller->host_count + list->count + 1, sizeof *controller->hosts);
    uint32_t spread_ms = backoff_spread_ms(list->count);
    *count = controller->host_count;
    if (!hosts)
        return NULL;
    for (size_t i = 0; i < controller->host_count; i++) {
        hosts[i] = controller->hosts[i];
        hosts[i]->is_seen = hosts[i]->is_registered;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct host *host = host_find(controller, list->hosts[i].name);
        if (host)
            update(controller, host, &list->hosts[i]);
        else if ((host = host_create(controller, &list->hosts[i], spread_ms)))
            hosts[(*count)++] = host;
        if (host)
            host->is_seen = true;
    }
    return hosts;
}

bool hosts_insert(struct controller *controller, struct host *host) {
    struct host **hosts =
        realloc(controller->hosts, (controller->host_count + 1) * sizeof(struct host *));
    if (!hosts)
        return false;
    controller->hosts = hosts;
    size_t at = controller->host_count++;
    for (; at > 0 && strcmp(hosts[at - 1]->name, host->name) > 0; at--)
        hosts[at] = hosts[at - 1];
    hosts[at] = host;
    return true;
}

void controller_set_hosts(struct controller *controller, const struct discovered_hosts *list) {
    size_t count;
    lock(controller);
    size_t before = controller->host_count;
    struct host **hosts = merge(controller, list, &count);
    if (hosts) {
        free(controller->hosts);
        controller->hosts = hosts;
        controller->host_count = count;
        qsort(hosts, count, sizeof *hosts, by_name);
        hosts_sweep(controller);
        sharing_apply(controller);
        log_line(controller, "audit: hosts: %zu are listed, %zu were before", list->count, before);
    } else {
        log_line(controller, "no memory for a new list of hosts; the old one stays in use");
    }
    unlock(controller);
}
