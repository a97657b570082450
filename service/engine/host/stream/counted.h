/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of a counted event.
 *
 * At a rate, the kernel does not choose the period of its own events well (perf_event.h), so the
 * stream does: it counts the events, and takes one in so many that about as many samples as asked
 * come in a second. The first moments of a burst have more.
 *
 * A program that works in a rhythm may cause as many events in each round as lie between two
 * samples, which then all come from one place. So the period is a random prime close to the one
 * asked for: it is in step with no round that has fewer events.
 *
 * Events without a sample are known, too: the kernel counts them, but throttles what happens too
 * often, rings are full, and at the end a period is incomplete. They are counted as a note, so that
 * the sum of a profile is what the kernel counted. Thread safety: engine thread only. */
#ifndef SONDE_SERVICE_ENGINE_HOST_STREAM_COUNTED_H
#define SONDE_SERVICE_ENGINE_HOST_STREAM_COUNTED_H

#include "service/engine/host/stream/host_target.h"
#include "service/host/rings/rings.h"

struct host_stream;

struct counted {
    struct host_event event; /* id ON_CPU: the stream samples CPU time, and nothing else is used */
    uint64_t every;          /* events for one sample now */
    uint64_t asked;          /* by_number: the period that was asked for */
    uint64_t random;         /* state of a generator; 0 = not used yet */
    uint64_t rate_ns, rate_total; /* the last look at the rate, and the total then */
    uint64_t cost_ns;             /* of a look, or of a change of the period, the last time */
    uint64_t total, total_ns; /* the total and when it was read; its records may be in the rings */
    uint64_t former_total, former_sampled; /* of rings that were replaced */
    uint64_t noted;                        /* events that were counted as notes */
    uint64_t noted_ns;                     /* when */
};

bool counted_is_on(const struct host_stream *stream);
/* Fills in what the rings are opened with. */
void counted_options(struct host_stream *stream, struct rings_options *options);
/* The rings have started. */
void counted_begin(struct host_stream *stream);
/* Rings are replaced by others; all of their records are counted. */
void counted_retire(struct host_stream *stream);
/* The period that captures ask for now. */
void counted_set_period(struct host_stream *stream, uint64_t period);
/* Adapts the period to the rate, if one was asked for. */
void counted_tick(struct host_stream *stream, uint64_t now_ns);
/* When it is due again; 0 = never. */
uint64_t counted_due(const struct host_stream *stream, uint64_t now_ns);
/* A capture begins or ends: reads the total, which counted_settle takes into account when the
 * records of before are counted. */
void counted_look(struct host_stream *stream);
/* Counts the events without a sample. is_last: with those of incomplete periods. */
void counted_settle(struct host_stream *stream, bool is_last);
/* A random prime within an eighth of `every`, which is at least 1; odd instead of prime if it is
 * large, the number itself if it is small. */
uint64_t counted_prime(uint64_t every, uint64_t random);

#endif
