/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/changes.h"
#include "api/draw/render.h"

#include <math.h>

static void put_number(struct sonde_buf *out, const char *name, double value) {
    if (isfinite(value))
        sonde_buf_printf(out, "\"%s\":%.12g", name, value);
    else
        sonde_buf_printf(out, "\"%s\":null", name);
}

static void put_change(struct sonde_buf *out, const struct verdict_change *change) {
    sonde_buf_putc(out, '{');
    put_number(out, "before", change->before);
    sonde_buf_putc(out, ',');
    put_number(out, "after", change->after);
    sonde_buf_putc(out, ',');
    put_number(out, "change", change->change);
    sonde_buf_putc(out, ',');
    put_number(out, "low", change->low);
    sonde_buf_putc(out, ',');
    put_number(out, "high", change->high);
}

static void put_judged(struct sonde_buf *out, const struct verdict_change *change) {
    put_change(out, change);
    sonde_buf_printf(out, ",\"verdict\":\"%s\"}", verdict_text(change->verdict));
}

static void put_measures(struct sonde_buf *out, const char *name,
                         const struct verdict_change changes[2]) {
    sonde_buf_printf(out, "\"%s\":{\"share\":", name);
    put_judged(out, &changes[VERDICT_SHARE]);
    sonde_buf_puts(out, ",\"amount\":");
    put_judged(out, &changes[VERDICT_AMOUNT]);
    sonde_buf_putc(out, '}');
}

static void put_function(struct sonde_buf *out, const struct sonde_comparison_function *function) {
    sonde_buf_puts(out, "{\"name\":");
    draw_json(out, function->name);
    sonde_buf_puts(out, ",\"module\":");
    draw_json(out, function->module);
    sonde_buf_putc(out, ',');
    put_measures(out, "self", function->self);
    sonde_buf_putc(out, ',');
    put_measures(out, "total", function->total);
    sonde_buf_putc(out, '}');
}

static void put_cause(struct sonde_buf *out, const struct sonde_comparison *comparison,
                      const struct sonde_comparison_cause *cause) {
    sonde_buf_puts(out, "{\"name\":");
    draw_json(out, cause->function->name);
    sonde_buf_puts(out, ",\"module\":");
    draw_json(out, cause->function->module);
    sonde_buf_puts(out, ",\"total\":");
    put_judged(out, &cause->function->total[comparison->measure]);
    sonde_buf_puts(out, ",\"callers\":[");
    for (size_t i = 0; i < cause->caller_count; i++) {
        sonde_buf_puts(out, i ? "," : "");
        draw_json(out, cause->callers[i]);
    }
    sonde_buf_printf(out, "],\"hasMoreCallers\":%s}", cause->has_more_callers ? "true" : "false");
}

static void put_side(struct sonde_buf *out, const char *key, const struct sonde_draw_side *side,
                     double samples, size_t blocks, bool is_counted) {
    sonde_buf_printf(out, "\"%s\":{\"name\":", key);
    draw_json(out, side->name);
    sonde_buf_printf(out, ",\"timeUnixNs\":\"%lld\",\"durationNs\":\"%lld\",\"total\":\"%lld\",",
                     (long long)side->time_unix_ns, (long long)side->duration_ns,
                     (long long)side->total);
    put_number(out, "samples", is_counted ? samples : NAN);
    sonde_buf_printf(out, ",\"blocks\":%zu}", blocks);
}

static void put_head(const struct sonde_comparison *comparison,
                     const struct sonde_draw_comparison *sides, struct sonde_buf *out) {
    sonde_buf_puts(out, "{\"type\":");
    draw_json(out, comparison->type.type);
    sonde_buf_puts(out, ",\"unit\":");
    draw_json(out, comparison->type.unit);
    sonde_buf_printf(out, ",\"measure\":\"%s\",\"confidence\":%g,",
                     comparison->measure == VERDICT_SHARE ? "share" : "amount",
                     comparison->confidence);
    put_side(out, "base", &sides->base, comparison->samples[0], comparison->blocks[0],
             comparison->is_counted);
    sonde_buf_putc(out, ',');
    put_side(out, "new", &sides->now, comparison->samples[1], comparison->blocks[1],
             comparison->is_counted);
    sonde_buf_puts(out, ",\"whole\":");
    put_change(out, &comparison->whole);
    sonde_buf_puts(out, "},");
    put_number(out, "leastShareChange", comparison->least_share_change);
    sonde_buf_puts(out, ",\"note\":");
    draw_json(out, sides->note ? sides->note : "");
}

void draw_changes_json(const struct sonde_comparison *comparison,
                       const struct sonde_draw_comparison *sides, struct sonde_buf *out) {
    put_head(comparison, sides, out);
    sonde_buf_puts(out, ",\"causes\":[");
    for (size_t i = 0; i < comparison->cause_count; i++) {
        sonde_buf_puts(out, i ? ",\n" : "\n");
        put_cause(out, comparison, &comparison->causes[i]);
    }
    sonde_buf_puts(out, "],\"functions\":[");
    for (size_t i = 0; i < comparison->function_count; i++) {
        sonde_buf_puts(out, i ? ",\n" : "\n");
        put_function(out, &comparison->functions[i]);
    }
    sonde_buf_puts(out, "]}\n");
}
