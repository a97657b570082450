/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/host/stream/counted.h"

#include "service/engine/capture/samples.h"
#include "service/engine/host/stream/stream.h"

#define LOOK_NS       20000000ull   /* between two looks at the rate, which may find a burst */
#define FIRST_NS      5000000ull    /* the same while each event is a sample */
#define CALM_NS       500000000ull  /* for so long the rate is low before the period gets shorter */
#define NOTE_NS       1000000000ull /* between two notes while captures run */
#define SHARE         50u           /* looks and changes take at most 1/50 of the time */
#define MAX_EVERY     (1ull << 40)
#define SMALLEST      7u         /* periods up to this are taken as they are */
#define LARGEST_PRIME (1u << 20) /* further ones are only odd, because primes are looked for */
#define OFF           2u         /* the period changes if it is wrong by this factor */

static const struct ring_ops *ops_of(const struct host_stream *stream) {
    return stream->engine->host->ops;
}

bool counted_is_on(const struct host_stream *stream) {
    return stream->counted.event.id != SONDE_ON_CPU;
}

/* Whether the stream chooses the period. */
static bool is_adaptive(const struct counted *counted) {
    return !counted->event.by_number && !perf_event_is_of_processor(counted->event.id);
}

/* --- the period ------------------------------------------------------------------------------- */

static bool is_prime(uint64_t number) {
    for (uint64_t i = 3; i * i <= number; i += 2)
        if (number % i == 0)
            return false;
    return number % 2 != 0;
}

uint64_t counted_prime(uint64_t every, uint64_t random) {
    uint64_t spread = every / 8;
    if (every <= SMALLEST)
        return every;
    uint64_t number = (every - spread + random % (2 * spread + 1)) | 1;
    while (number < LARGEST_PRIME && !is_prime(number))
        number += 2;
    return number < MAX_EVERY ? number : MAX_EVERY - 1;
}

static uint64_t prime_near(struct host_stream *stream, uint64_t every) {
    struct counted *counted = &stream->counted;
    if (counted->random == 0)
        counted->random = engine_random(stream->engine);
    counted->random = counted->random * 6364136223846793005u + 1442695040888963407u;
    return counted_prime(every, counted->random >> 33);
}

void counted_options(struct host_stream *stream, struct rings_options *options) {
    struct counted *counted = &stream->counted;
    options->event = counted->event.id;
    if (!counted_is_on(stream))
        return;
    options->is_one = stream->targets && stream->targets->host->members == HOST_ONE;
    if (counted->event.by_number) {
        counted->asked = options->period_ns;
        options->every = counted->every = prime_near(stream, counted->asked);
        options->period_ns = 1000000000u;
    } else if (is_adaptive(counted)) {
        options->every = counted->every ? counted->every : 1;
    }
}

/* --- the rate --------------------------------------------------------------------------------- */

void counted_begin(struct host_stream *stream) {
    struct counted *counted = &stream->counted;
    if (!counted_is_on(stream))
        return;
    counted->rate_ns = now_monotonic_ns();
    counted->rate_total = ops_of(stream)->total(stream->rings);
    counted->every = counted->every ? counted->every : 1;
    if (counted->event.by_number ||
        is_adaptive(counted)) /* it may have changed while they opened */
        ops_of(stream)->set_period(stream->rings, counted->every);
}

void counted_set_period(struct host_stream *stream, uint64_t period) {
    struct counted *counted = &stream->counted;
    if (is_adaptive(counted))
        return;
    if (counted->event.by_number && period == counted->asked)
        return;
    counted->asked = period;
    if (counted->event.by_number)
        period = counted->every = prime_near(stream, period);
    ops_of(stream)->set_period(stream->rings, period);
}

static void change(struct host_stream *stream, uint64_t every) {
    struct counted *counted = &stream->counted;
    uint64_t began_ns = now_monotonic_ns();
    counted->every = prime_near(stream, every);
    if (stream_has_many_events(stream))
        stream_reopen(stream);
    else if (stream->rings)
        ops_of(stream)->set_period(stream->rings, counted->every);
    counted->cost_ns = now_monotonic_ns() - began_ns;
}

/* The events in the time that a sample is wanted for. */
static uint64_t wanted(const struct host_stream *stream, uint64_t events, uint64_t ns) {
    double every = (double)events * (double)stream->period_ns / (double)ns;
    return every < 1 ? 1 : every < (double)MAX_EVERY ? (uint64_t)every : MAX_EVERY;
}

/* While each event is a sample, a burst would fill the rings soon. */
static uint64_t pause_of(const struct counted *counted) {
    uint64_t pause_ns = counted->every > 1 ? LOOK_NS : FIRST_NS;
    return pause_ns > SHARE * counted->cost_ns ? pause_ns : SHARE * counted->cost_ns;
}

uint64_t counted_due(const struct host_stream *stream, uint64_t now_ns) {
    bool is_looking = counted_is_on(stream) && is_adaptive(&stream->counted) && stream->rings &&
                      stream->state == STREAM_RUNNING;
    return is_looking ? now_ns + pause_of(&stream->counted) : 0;
}

void counted_tick(struct host_stream *stream, uint64_t now_ns) {
    struct counted *counted = &stream->counted;
    uint64_t ns = now_ns - counted->rate_ns;
    if (!is_adaptive(counted) || ns < pause_of(counted))
        return;
    uint64_t total = ops_of(stream)->total(stream->rings);
    counted->cost_ns = now_monotonic_ns() - now_ns;
    uint64_t every = wanted(stream, total - counted->rate_total, ns);
    bool is_burst = every > OFF * counted->every;
    if (!is_burst && ns < (counted->every > 1 ? CALM_NS : LOOK_NS))
        return;
    counted->rate_ns = now_ns;
    counted->rate_total = total;
    if (is_burst || counted->every > OFF * every)
        change(stream, every);
}

/* --- events without a sample ------------------------------------------------------------------ */

static uint64_t sampled(struct host_stream *stream) {
    struct rings_counts now = {0};
    ops_of(stream)->counts(stream->rings, &now);
    return stream->counted.former_sampled + now.sampled;
}

/* What has grown is known without the faults that have no sample (growth.h). */
static bool has_notes(const struct host_stream *stream) {
    return counted_is_on(stream) && stream->counted.event.id != SONDE_GROWTH;
}

void counted_look(struct host_stream *stream) {
    struct counted *counted = &stream->counted;
    if (!has_notes(stream) || !stream->rings || stream->state != STREAM_RUNNING)
        return;
    counted->total = counted->former_total + ops_of(stream)->total(stream->rings);
    counted->total_ns = now_monotonic_ns();
}

void counted_retire(struct host_stream *stream) {
    struct counted *counted = &stream->counted;
    if (!counted_is_on(stream))
        return;
    counted->former_sampled = sampled(stream);
    counted->former_total += ops_of(stream)->total(stream->rings);
}

static struct count_key note_key(void *context, struct target *target) {
    (void)context;
    return (struct count_key){.stack = stacks_add_note(target->stacks, 0, STACK_NOTE_UNSAMPLED),
                              .thread = stacks_add_thread(target->stacks, 0, 0, "")};
}

static void note(struct host_stream *stream, uint64_t events) {
    struct spent spent = {.event = stream->counted.event.id,
                          .amount = events,
                          .at_ns = now_monotonic_ns(),
                          .key = note_key};
    stream->counted.noted += events;
    for (struct target *target = stream->targets; target; target = target->host->next)
        samples_add(target, &spent);
}

void counted_settle(struct host_stream *stream, bool is_last) {
    struct counted *counted = &stream->counted;
    uint64_t now_ns = now_monotonic_ns();
    if (!has_notes(stream) || !stream->rings || stream->state != STREAM_RUNNING ||
        (!is_last && now_ns - counted->noted_ns < NOTE_NS))
        return;
    if (counted->total_ns == 0) { /* its records are in the rings; see the next call */
        counted_look(stream);
        return;
    }
    if (stream->drained_to_ns < counted->total_ns)
        return;
    uint64_t known = sampled(stream) + counted->noted;
    /* Periods that are incomplete now become samples later. */
    known += is_last ? 0 : stream->seen.events * counted->every;
    counted->noted_ns = now_ns;
    if (counted->total > known)
        note(stream, counted->total - known);
    counted->total_ns = 0;
}
