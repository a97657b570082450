/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures are a doubly linked list in the order of their times, so that the oldest is found at
 * once. Hosts are numbered in an array; the number of a forgotten host is used for a later one once
 * the index has been built again, which happens when half of its entries are forgotten hosts. */
#include "clients/collect/policy/breaker.h"

#include "api/base/array.h"
#include "api/hash_index.h"

#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

enum outcome { FORGOTTEN, UNKNOWN, CONNECTED, FAILED };

struct host {
    uint64_t id;
    int64_t failed_ms;
    uint32_t previous, next; /* in the list of failures */
    enum outcome outcome;
};

struct breaker {
    uint32_t limit_percent;
    bool is_open, last_is_success;
    int64_t probe_ms; /* of the last probe */
    struct hash_index index;
    struct host *hosts;
    uint32_t count, capacity, forgotten;
    uint32_t first, last; /* failures */
    uint32_t failed, connected;
};

struct breaker *breaker_create(uint32_t limit_percent) {
    struct breaker *breaker = calloc(1, sizeof *breaker);
    if (!breaker)
        return NULL;
    breaker->limit_percent = limit_percent;
    breaker->first = breaker->last = NONE;
    hash_index_init(&breaker->index);
    return breaker;
}

void breaker_destroy(struct breaker *breaker) {
    if (!breaker)
        return;
    hash_index_finish(&breaker->index);
    free(breaker->hosts);
    free(breaker);
}

static uint32_t find(const struct breaker *breaker, uint64_t id) {
    struct hash_probe probe = hash_probe(hash_index_words(&breaker->index, id, 0));
    uint32_t number;
    while ((number = hash_index_next(&breaker->index, &probe)) != HASH_INDEX_NONE)
        if (breaker->hosts[number].id == id)
            return number;
    return NONE;
}

static uint32_t add(struct breaker *breaker, uint64_t id) {
    if (breaker->count - breaker->forgotten >= BREAKER_MAX_HOSTS)
        return NONE;
    if (!array_room(&breaker->hosts, &breaker->capacity, breaker->count, 1))
        return NONE;
    if (!hash_index_add(&breaker->index, hash_index_words(&breaker->index, id, 0), breaker->count))
        return NONE;
    breaker->hosts[breaker->count] = (struct host){id, 0, NONE, NONE, UNKNOWN};
    return breaker->count++;
}

static void unlink_failure(struct breaker *breaker, struct host *host) {
    if (host->previous == NONE)
        breaker->first = host->next;
    else
        breaker->hosts[host->previous].next = host->next;
    if (host->next == NONE)
        breaker->last = host->previous;
    else
        breaker->hosts[host->next].previous = host->previous;
}

/* Takes the host's outcome out of the sums. */
static void uncount(struct breaker *breaker, struct host *host) {
    if (host->outcome == FAILED) {
        unlink_failure(breaker, host);
        breaker->failed--;
    }
    if (host->outcome == CONNECTED)
        breaker->connected--;
    host->outcome = UNKNOWN;
}

static void count_failure(struct breaker *breaker, uint32_t number, int64_t now_ms) {
    struct host *host = &breaker->hosts[number];
    host->outcome = FAILED;
    host->failed_ms = now_ms;
    host->previous = breaker->last;
    host->next = NONE;
    if (breaker->last == NONE)
        breaker->first = number;
    else
        breaker->hosts[breaker->last].next = number;
    breaker->last = number;
    breaker->failed++;
}

/* Forgets old failures, then opens or closes. */
static void update(struct breaker *breaker, int64_t now_ms) {
    while (breaker->first != NONE &&
           breaker->hosts[breaker->first].failed_ms <= now_ms - BREAKER_WINDOW_S * 1000)
        uncount(breaker, &breaker->hosts[breaker->first]);
    uint64_t hosts = (uint64_t)breaker->failed + breaker->connected;
    uint64_t percents = (uint64_t)breaker->failed * 100;
    if (!breaker->is_open && hosts >= BREAKER_MIN_HOSTS &&
        percents > breaker->limit_percent * hosts) {
        breaker->is_open = true;
        breaker->probe_ms = now_ms;
    } else if (breaker->is_open &&
               (breaker->failed == 0 ||
                (breaker->last_is_success && 2 * percents <= breaker->limit_percent * hosts))) {
        breaker->is_open = false;
    }
}

void breaker_report(struct breaker *breaker, uint64_t id, bool is_failure, int64_t now_ms) {
    uint32_t number = find(breaker, id);
    if (number == NONE)
        number = add(breaker, id);
    if (number == NONE)
        return;
    if (breaker->hosts[number].outcome == FORGOTTEN)
        breaker->forgotten--;
    uncount(breaker, &breaker->hosts[number]);
    breaker->last_is_success = !is_failure;
    if (is_failure) {
        count_failure(breaker, number, now_ms);
    } else {
        breaker->hosts[number].outcome = CONNECTED;
        breaker->probe_ms = now_ms - BREAKER_PROBE_S * 1000;
        breaker->connected++;
    }
    update(breaker, now_ms);
}

/* Copies the hosts that are not forgotten, and links the failures again in their order. */
static void rebuild(struct breaker *breaker) {
    uint32_t first = NONE, last = NONE, count = 0, *numbers;
    numbers = malloc((breaker->count + 1) * sizeof *numbers);
    if (!numbers)
        return;
    for (uint32_t i = 0; i < breaker->count; i++)
        numbers[i] = breaker->hosts[i].outcome == FORGOTTEN ? NONE : count++;
    for (uint32_t i = breaker->first; i != NONE; i = breaker->hosts[i].next)
        last = numbers[i];
    first = breaker->first == NONE ? NONE : numbers[breaker->first];
    hash_index_clear(&breaker->index);
    for (uint32_t i = 0; i < breaker->count; i++) {
        struct host host = breaker->hosts[i];
        if (host.outcome == FORGOTTEN)
            continue;
        host.previous = host.previous == NONE ? NONE : numbers[host.previous];
        host.next = host.next == NONE ? NONE : numbers[host.next];
        breaker->hosts[numbers[i]] = host;
        /* The slots were enough for more entries: this does not fail. */
        (void)hash_index_add(&breaker->index, hash_index_words(&breaker->index, host.id, 0),
                             numbers[i]);
    }
    free(numbers);
    breaker->first = first;
    breaker->last = last;
    breaker->count = count;
    breaker->forgotten = 0;
}

void breaker_forget(struct breaker *breaker, uint64_t id) {
    uint32_t number = find(breaker, id);
    if (number == NONE || breaker->hosts[number].outcome == FORGOTTEN)
        return;
    uncount(breaker, &breaker->hosts[number]);
    breaker->hosts[number].outcome = FORGOTTEN;
    if (++breaker->forgotten > breaker->count / 2)
        rebuild(breaker);
}

bool breaker_is_open(struct breaker *breaker, int64_t now_ms) {
    update(breaker, now_ms);
    return breaker->is_open;
}

bool breaker_allows(struct breaker *breaker, int64_t now_ms) {
    if (!breaker_is_open(breaker, now_ms))
        return true;
    if (now_ms - breaker->probe_ms < BREAKER_PROBE_S * 1000)
        return false;
    breaker->probe_ms = now_ms;
    return true;
}

const char *breaker_text(struct breaker *breaker, int64_t now_ms, char *text, size_t size) {
    update(breaker, now_ms);
    uint64_t hosts = (uint64_t)breaker->failed + breaker->connected;
    snprintf(text, size, "%u of %llu host%s fail%s (limit %u %%)", breaker->failed,
             (unsigned long long)hosts, hosts == 1 ? "" : "s", breaker->failed == 1 ? "s" : "",
             breaker->limit_percent);
    return text;
}
