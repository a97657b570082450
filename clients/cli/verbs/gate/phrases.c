/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/render.h"
#include "clients/cli/verbs/gate/report.h"

#include <math.h>
#include <stdlib.h>

#define LARGEST_VALUE 9e18

static void put_percent(struct sonde_buf *out, double part) {
    if (isinf(part))
        sonde_buf_puts(out, part > 0 ? "+∞" : "-∞");
    else
        sonde_buf_printf(out, "%+.*f %%", fabs(part) < 0.1 ? 2 : 1, 100 * part);
}

static void put_interval(struct sonde_buf *out, double low, double high) {
    sonde_buf_puts(out, " (");
    put_percent(out, low);
    sonde_buf_puts(out, " to ");
    put_percent(out, high);
    sonde_buf_putc(out, ')');
}

/* Small amounts, such as those per request, are no integers. */
static void put_amount(struct sonde_buf *out, double value, const char *unit) {
    if (fabs(value) < 10 && value != round(value))
        sonde_buf_printf(out, "%.3g %s", value, unit);
    else
        draw_value(out, (int64_t)fmax(fmin(round(value), LARGEST_VALUE), -LARGEST_VALUE), unit);
}

const char *gate_per_text(const struct gate_report *report) {
    if (report->per->kind == GATE_PER_COUNT)
        return report->per->name;
    bool is_second = report->per->kind == GATE_PER_SECOND ||
                     (report->per->kind == GATE_PER_DEFAULT && report->input->is_history);
    return is_second ? "second" : "run";
}

const char *gate_subject(const struct gate_check *check) {
    return check->unmatched ? check->unmatched : check->function ? check->function->name : "total";
}

void gate_put_check(struct sonde_buf *out, const struct gate_report *report,
                    const struct gate_check *check) {
    const struct sonde_comparison *comparison = report->comparison;
    const struct verdict_change *change =
        check->function ? &check->function->total[VERDICT_AMOUNT] : &comparison->whole;
    if (check->unmatched) {
        sonde_buf_puts(out, "no function has such a name");
        return;
    }
    put_amount(out, change->before, comparison->type.unit);
    sonde_buf_puts(out, " → ");
    put_amount(out, change->after, comparison->type.unit);
    sonde_buf_printf(out, " per %s, ", gate_per_text(report));
    put_percent(out, check->increase);
    put_interval(out, check->low, check->high);
    sonde_buf_puts(out, ", limit ");
    put_percent(out, check->limit);
}

void gate_put_cause(struct sonde_buf *out, const struct gate_report *report,
                    const struct sonde_comparison_cause *cause) {
    const struct sonde_comparison *comparison = report->comparison;
    const struct verdict_change *change = &cause->function->total[VERDICT_AMOUNT];
    double whole = comparison->whole.before;
    if (change->change > 0)
        sonde_buf_putc(out, '+');
    put_amount(out, change->change, comparison->type.unit);
    sonde_buf_printf(out, " per %s, ", gate_per_text(report));
    put_percent(out, change->change / whole);
    sonde_buf_puts(out, " of the total");
    put_interval(out, change->low / whole, change->high / whole);
}

static void put_side(struct sonde_buf *out, const struct gate_report *report, int side) {
    size_t runs = report->input->counts[side];
    double samples = report->comparison ? report->comparison->samples[side] : 0;
    sonde_buf_printf(out, "%zu %s run%s", runs, side ? "new" : "base", runs == 1 ? "" : "s");
    if (samples <= 0)
        return;
    sonde_buf_puts(out, " with ");
    draw_grouped(out, (int64_t)fmin(round(samples), LARGEST_VALUE));
    sonde_buf_puts(out, round(samples) == 1 ? " sample" : " samples");
}

void gate_put_runs(struct sonde_buf *out, const struct gate_report *report) {
    put_side(out, report, 0);
    sonde_buf_puts(out, ", ");
    put_side(out, report, 1);
}

void gate_put_noise(struct sonde_buf *out, const struct gate_report *report) {
    double noise = report->decision->noise;
    if (report->comparison && isfinite(noise) && !report->decision->reason[0])
        sonde_buf_printf(out,
                         "noise floor: ± %.2f %% of the total; a smaller change cannot be seen",
                         100 * noise);
}

void gate_put_advice(struct sonde_buf *out, const struct gate_report *report) {
    const struct gate_decision *decision = report->decision;
    if (decision->reason[0])
        sonde_buf_puts(out, decision->reason);
    else if (decision->result != GATE_INCONCLUSIVE)
        return;
    else if (decision->more_runs)
        sonde_buf_printf(out,
                         "the intervals contain their limits; about %zu more run%s on each side "
                         "would decide",
                         decision->more_runs, decision->more_runs == 1 ? "" : "s");
    else
        sonde_buf_puts(out, "some checks cannot be decided by a reasonable number of runs: the "
                            "change is too near to the limit, or no function matches");
}

/* They are in the order of their size. */
size_t gate_cause_count(const struct gate_report *report) {
    const struct sonde_comparison *comparison = report->comparison;
    size_t count = 0;
    if (!comparison || report->decision->reason[0])
        return 0;
    double least = report->rules->min_effect * comparison->whole.before;
    while (count < comparison->cause_count && count < GATE_MAX_CAUSES &&
           fabs(comparison->causes[count].function->total[VERDICT_AMOUNT].change) >= least)
        count++;
    return count;
}

void gate_each_disturbed(const struct gate_report *report,
                         void (*each)(struct sonde_buf *out, const struct gate_run *run),
                         struct sonde_buf *out) {
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < report->input->counts[side]; i++)
            if (report->input->runs[side][i].disturbance[0])
                each(out, &report->input->runs[side][i]);
}
