/* SPDX-License-Identifier: Apache-2.0
 *
 * The comments of a profile, which describe how it was taken. Each is "name: value", so that
 * scripts can read them. */
#include "service/engine/report/report.h"

#include "api/clock_name.h"
#include "api/profile/timeline.h"
#include "api/profile/verdict/interval.h"

#include <stdio.h>
#include <string.h>

static void add_drops(const struct report_input *input, struct sonde_buf *text) {
    const struct engine_metadata *metadata = &input->metadata;
    bool is_first = true;
    sonde_buf_puts(text, "dropped: ");
    for (size_t i = 0; i < metadata->drop_count; i++) {
        if (metadata->drops[i].count == 0)
            continue;
        sonde_buf_printf(text, "%s%s %llu", is_first ? "" : ", ", metadata->drops[i].cause,
                         (unsigned long long)metadata->drops[i].count);
        is_first = false;
    }
    if (is_first)
        sonde_buf_puts(text, "none");
}

/* Number of stacks that end before the root, by reason; no comment if there are none. */
static void add_cuts(const struct report_input *input, struct sonde_buf *text) {
    static const char *const reasons[STACK_ENDS] = {
        [STACK_END_NO_TABLE] = "no unwind table",
        [STACK_END_RULE] = "complex rule",
        [STACK_END_BAD_STACK] = "bad stack",
        [STACK_END_SHORT] = "stack copy too short",
        [STACK_END_GONE] = "process ended",
        [STACK_END_NO_TABLE_YET] = "unwind table not loaded yet",
    };
    const char *separator = "cut stacks: ";
    for (int i = 0; i < STACK_ENDS; i++) {
        if (!reasons[i] || input->cut_stacks[i] == 0)
            continue;
        sonde_buf_printf(text, "%s%s %llu", separator, reasons[i],
                         (unsigned long long)input->cut_stacks[i]);
        separator = ", ";
    }
}

/* Code that has no names because the process maps too much. */
static void add_unmapped(const struct report_input *input, struct sonde_buf *text) {
    const char *separator = "";
    if (input->ignored_mappings || input->forgotten)
        sonde_buf_puts(text, "unnamed code: ");
    if (input->ignored_mappings) {
        sonde_buf_printf(text, "%u mappings beyond the limit of %u", input->ignored_mappings,
                         SPACE_MAX_MAPPINGS);
        separator = ", ";
    }
    if (input->forgotten)
        sonde_buf_printf(text, "%s%llu samples of memory maps that changed too fast", separator,
                         (unsigned long long)input->forgotten);
}

/* Samples x period compared with the process's CPU clock over the same time. A difference that
 * chance explains is not shown as a share, because that looks like a loss. */
static void add_share(const struct engine_metadata *metadata, double sampled_s,
                      struct sonde_buf *text) {
    double period_s = (double)metadata->period_ns / 1e9;
    double target_s = (double)metadata->target_cpu_ns / 1e9;
    struct verdict_limits limits = verdict_poisson((double)metadata->samples, VERDICT_Q95);
    double by_chance_s = verdict_half_width(limits) * period_s;
    if (target_s >= limits.low * period_s && target_s <= limits.high * period_s)
        sonde_buf_printf(text,
                         "coverage: agrees with the CPU clock (%.3f s sampled of %.3f s, ± %.3f s "
                         "by chance)",
                         sampled_s, target_s, by_chance_s);
    else
        sonde_buf_printf(
            text, "coverage: %.1f %% ± %.1f (%.3f s sampled of %.3f s on the CPU clock)",
            100 * sampled_s / target_s, 100 * by_chance_s / target_s, sampled_s, target_s);
}

static void add_coverage(const struct report_input *input, struct sonde_buf *text) {
    const struct engine_metadata *metadata = &input->metadata;
    if (sonde_event_is_counted(metadata->event))
        return;
    double sampled_s = (double)metadata->samples * (double)metadata->period_ns / 1e9;
    if (metadata->event != SONDE_ON_CPU)
        sonde_buf_printf(text, "time of all threads: %.3f s", sampled_s);
    else if (metadata->target_cpu_ns == 0)
        sonde_buf_printf(text, "coverage: %.3f s sampled; %s", sampled_s,
                         input->pid ? "the process's CPU clock is unknown"
                                    : "not compared with a CPU clock, of several processes");
    else
        add_share(metadata, sampled_s, text);
}

static void add_cost(const struct report_input *input, struct sonde_buf *text) {
    const struct engine_metadata *metadata = &input->metadata;
    sonde_buf_printf(text, "cost: %.3f ms of CPU time in %s", (double)metadata->guest_cpu_ns / 1e6,
                     sonde_clock_is_outside(input->metadata.clock) ? "sonded" : "the target");
    if (metadata->target_cpu_ns >
        metadata->guest_cpu_ns) /* for an idle target, the share would be meaningless */
        sonde_buf_printf(text, " (%.2f %%)",
                         100 * (double)metadata->guest_cpu_ns / (double)metadata->target_cpu_ns);
}

static void add_target(const struct report_input *input, struct sonde_buf *text) {
    sonde_buf_printf(text, "target: %s", input->target_name);
    if (input->root_name[0])
        sonde_buf_printf(text, " (%s)", input->root_name);
    if (input->pid) /* otherwise several processes */
        sonde_buf_printf(text, ", pid %d", (int)input->pid);
    if (input->metadata.target_execed)
        sonde_buf_puts(text, ", called exec during the capture");
    else if (input->metadata.target_gone)
        sonde_buf_puts(text, ", ended during the capture");
}

static void add_source(const struct report_input *input, struct sonde_buf *text) {
    bool is_outside = sonde_clock_is_outside(input->metadata.clock);
    if (input->metadata.clock[0])
        sonde_buf_printf(text, "sampled: from %s", is_outside ? "outside" : "inside the process");
}

static void add_clock(const struct report_input *input, struct sonde_buf *text) {
    if (!sonde_clock_is_best(input->metadata.clock))
        sonde_buf_printf(text, "clock: %s",
                         input->metadata.clock[0] ? input->metadata.clock : "none");
}

static void add_note(const struct report_input *input, struct sonde_buf *text) {
    if (input->metadata.clock_note[0])
        sonde_buf_printf(text, "clock note: %s", input->metadata.clock_note);
}

static void add_rate(const struct report_input *input, struct sonde_buf *text) {
    bool is_growth = input->metadata.event == SONDE_GROWTH;
    const char *words =
        sonde_events[is_growth ? SONDE_PAGE_FAULTS : input->metadata.event].amount.words;
    if (input->every)
        sonde_buf_printf(text, "period: one sample for %llu %s", (unsigned long long)input->every,
                         words);
    else if (sonde_event_is_counted(input->metadata.event))
        sonde_buf_printf(text,
                         "rate: up to about %u samples a second, each for the %s since the "
                         "one before",
                         input->frequency_hz, words);
    else
        sonde_buf_printf(text, "rate: %u Hz", input->frequency_hz);
}

/* A capture of the first N samples ends before its time. */
static void add_limit(const struct report_input *input, struct sonde_buf *text) {
    const struct engine_metadata *metadata = &input->metadata;
    if (input->max_samples && metadata->samples >= input->max_samples)
        sonde_buf_printf(text, "ended early: after %.3f s, at the limit of %llu samples (n)",
                         (double)(metadata->end_unix_ns - metadata->start_unix_ns) / 1e9,
                         (unsigned long long)input->max_samples);
}

static void add_waits(const struct report_input *input, struct sonde_buf *text) {
    if (input->counts_waits && input->are_waits_samples)
        sonde_buf_printf(
            text,
            "contentions: estimated, one per %.0f ms of waiting; to count them, sonded "
            "needs BPF (sonde doctor)",
            (double)input->metadata.period_ns / 1e6);
}

static void add_mode(const struct report_input *input, struct sonde_buf *text) {
    const char *note = sonde_events[input->metadata.event].note;
    if (note)
        sonde_buf_puts(text, note);
}

static void put_mebibytes(struct sonde_buf *text, const char *words, uint64_t bytes) {
    sonde_buf_printf(text, "%s%.1f MiB", words, (double)bytes / (1 << 20));
}

static void add_growth(const struct report_input *input, struct sonde_buf *text) {
    const struct report_growth *growth = &input->growth;
    if (!growth->is_known)
        return;
    if (growth->has_ended) {
        sonde_buf_puts(text,
                       "growth: the process ended, or ran another program, so none of that memory "
                       "is resident any more");
        return;
    }
    put_mebibytes(text, "growth: anonymous memory ", growth->anonymous);
    if (growth->huge)
        put_mebibytes(text, ", in huge pages ", growth->huge);
    put_mebibytes(text, "; files ", growth->file);
    put_mebibytes(text, "; shared memory ", growth->shared);
    if (growth->has_rss)
        sonde_buf_printf(text, "; RssAnon changed by %+.1f MiB",
                         (double)growth->rss_change / (1 << 20));
    put_mebibytes(text, ", given back ", growth->gone);
    if (growth->back)
        put_mebibytes(text, ", back from swap ", growth->back);
}

/* What the growth does not cover, or covers less exactly. */
static void add_growth_limits(const struct report_input *input, struct sonde_buf *text) {
    const struct report_growth *growth = &input->growth;
    if (growth->skipped)
        sonde_buf_printf(text, "growth limit: %.1f GiB of address space were not looked at",
                         (double)growth->skipped / (1 << 30));
    if (growth->thinned)
        sonde_buf_printf(text, "%s1 in %u of the sampled page faults was kept",
                         text->len ? "; " : "growth limit: ", 1u << growth->thinned);
}

static void add_budget(const struct report_input *input, struct sonde_buf *text) {
    if (input->metadata.budget_note[0])
        sonde_buf_printf(text, "overhead ceiling: %s", input->metadata.budget_note);
}

static void add_time_bins(const struct report_input *input, struct sonde_buf *text) {
    if (input->has_timeline && input->bins.is_full)
        sonde_buf_printf(text, "time bins: dropped, more than %u", SONDE_TIMELINE_MAX);
}

static void add_truncated(const struct report_input *input, struct sonde_buf *text) {
    if (input->metadata.truncated)
        sonde_buf_printf(text, "truncated stacks: %llu",
                         (unsigned long long)input->metadata.truncated);
}

sonde_err report_add_comments(const struct report_input *input, struct sonde_profile *profile) {
    static void (*const rows[])(const struct report_input *, struct sonde_buf *) = {
        add_target,    add_mode, add_growth,   add_growth_limits, add_waits,  add_source,
        add_clock,     add_note, add_rate,     add_limit,         add_budget, add_drops,
        add_truncated, add_cuts, add_unmapped, add_coverage,      add_cost,   add_time_bins,
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sonde_buf text = {0};
        rows[i](input, &text);
        sonde_err err = text.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
        if (!err && text.len > 0)
            err = sonde_profile_add_comment(profile, text.data);
        sonde_buf_finish(&text);
        if (err)
            return err;
    }
    return SONDE_OK;
}
