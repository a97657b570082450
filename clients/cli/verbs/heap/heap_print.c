/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/heap/heap.h"

#include <inttypes.h>

static void put_time(int64_t unix_ns) {
    char text[CLI_VALUE_BYTES];
    fputs(cli_time_text(unix_ns, text), stdout);
}

static void put_size(uint64_t bytes) {
    char text[CLI_VALUE_BYTES];
    fputs(cli_size_text(bytes, text), stdout);
}

static void print_active(const Sonde__V1__HeapState *state) {
    fputs("heap profiling is on", stdout);
    if (state->active_since_unix_ns) {
        fputs(" since ", stdout);
        put_time(state->active_since_unix_ns);
    }
    if (state->owner[0]) {
        fputs(", switched on by ", stdout);
        cli_put_name(stdout, state->owner);
    }
    if (state->lease_until_unix_ns) {
        fputs(", until ", stdout);
        put_time(state->lease_until_unix_ns);
    }
    fputs("\none sample per ", stdout);
    put_size(state->sample_bytes);
    fputs(state->backend == SONDE__V1__HEAP_STATE__BACKEND__INTERPOSED
              ? " taken by Sonde's sampler, which sees allocations made since then"
              : "",
          stdout);
    fputs(state->accumulates ? "; allocation totals are available\n" : "\n", stdout);
    if (state->dropped)
        printf("%" PRIu64 " sample%s dropped: the sampler's tables are full\n", state->dropped,
               state->dropped == 1 ? "" : "s");
    if (state->interval_s)
        printf("one dump every %u s; the newest %u are kept\n", state->interval_s,
               state->keep_dumps);
    if (state->gdump)
        puts("one dump at each new peak of mapped memory");
    if (state->gdump_skipped)
        printf("%" PRIu64 " peak dump%s skipped: the limit is one per second\n",
               state->gdump_skipped, state->gdump_skipped == 1 ? "" : "s");
}

static void print_dumps(const Sonde__V1__HeapState *state) {
    if (state->dumps) {
        printf("%u dump%s saved, ", state->dumps, state->dumps == 1 ? "" : "s");
        put_size(state->dump_bytes);
        puts("; list them with `sonde heap list`");
    }
    if (state->dump_failures) {
        printf("%u dump%s failed, most recently: ", state->dump_failures,
               state->dump_failures == 1 ? "" : "s");
        cli_put_name(stdout, state->last_failure);
        putchar('\n');
    }
}

void heap_print_state(const Sonde__V1__HeapState *state) {
    if (state->active)
        print_active(state);
    else if (state->available)
        puts("heap profiling is off; switch it on with `sonde heap on`");
    else
        puts("heap profiling is not available in this target:");
    bool has_reason = state->active || state->available || state->note[0];
    cli_put_line(stdout, "", has_reason ? state->note : "its allocator cannot be profiled");
    print_dumps(state);
}

static void print_dump(const Sonde__V1__HeapDump *dump) {
    printf("%s  ", dump->name);
    put_time(dump->unix_ns);
    fputs("  ", stdout);
    put_size(dump->size_bytes);
    putchar('\n');
}

void heap_print_ended(const Sonde__V1__ListHeapDumpsResponse *list) {
    if (list->n_dumps == 0)
        puts("no dumps of exited processes");
    for (size_t i = 0; i < list->n_dumps; i++) {
        const Sonde__V1__HeapDump *dump = list->dumps[i];
        cli_put_name(stdout, dump->target[0] ? dump->target : "?");
        printf("  %d  %s  ", dump->pid, dump->uuid);
        print_dump(dump);
    }
}

void heap_print_dumps(const Sonde__V1__ListHeapDumpsResponse *list) {
    if (list->n_dumps == 0)
        puts("no saved dumps; `sonde heap on --interval 60` saves one every minute");
    for (size_t i = 0; i < list->n_dumps; i++)
        print_dump(list->dumps[i]);
}
