/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/title.h"
#include "api/draw/render.h"
#include "api/profile/event.h"
#include "api/profile/select/only_process.h"
#include "api/text/time_text.h"

#include <string.h>
#include <time.h>

/* ---- The target ---- */

/* "target: redis-server, pid 4711" → "redis-server". A name may contain a comma. */
static struct sonde_slice target_of(const char *comment) {
    static const char *const ends[] = {", called exec during the capture",
                                       ", ended during the capture", ", pid "};
    size_t len = strlen(comment);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = NULL;
        for (const char *at = strstr(comment, ends[i]); at; at = strstr(at + 1, ends[i]))
            end = at;
        if (end && (size_t)(end - comment) < len)
            len = (size_t)(end - comment);
    }
    return (struct sonde_slice){comment, len};
}

/* A process and its children: by name, if it had none. Older profiles do not have the name. */
static void put_tree(struct sonde_buf *out, const struct sonde_profile *profile,
                     struct sonde_slice pid, struct sonde_slice name) {
    uint32_t process = sonde_profile_only_process(profile);
    if (process)
        sonde_buf_puts(out,
                       sonde_profile_text(profile, sonde_profile_function(profile, process)->name));
    else if (name.len)
        sonde_buf_printf(out, "%.*s and its children", (int)name.len, name.data);
    else
        sonde_buf_printf(out, "process %.*s and its children", (int)pid.len, pid.data);
}

/* "4711 (make)" or "4711". False: it is neither. */
static bool read_tree(const char *text, size_t len, struct sonde_slice *pid,
                      struct sonde_slice *name) {
    size_t digits = strspn(text, "0123456789");
    digits = digits < len ? digits : len;
    *pid = (struct sonde_slice){text, digits};
    *name = (struct sonde_slice){NULL, 0};
    if (digits == len)
        return true;
    if (digits == 0 || len < digits + 4 || strncmp(text + digits, " (", 2) != 0 ||
        text[len - 1] != ')')
        return false;
    *name = (struct sonde_slice){text + digits + 2, len - digits - 3};
    return true;
}

/* A target of several processes is "@all", "@all:redis", "@all:4711 (make)" or "@all:4711". */
static void put_name(struct sonde_buf *out, const struct sonde_profile *profile,
                     struct sonde_slice name) {
    static const char all[] = "@all";
    size_t len = sizeof all - 1;
    bool is_all = name.len >= len && memcmp(name.data, all, len) == 0;
    int rest_len = is_all && name.len > len + 1 ? (int)(name.len - len - 1) : 0;
    const char *rest = rest_len ? name.data + len + 1 : "";
    struct sonde_slice pid, root;
    if (is_all && name.len == len)
        sonde_buf_puts(out, "all processes");
    else if (!rest_len || name.data[len] != ':')
        sonde_buf_append(out, name.data, name.len);
    else if (read_tree(rest, (size_t)rest_len, &pid, &root))
        put_tree(out, profile, pid, root);
    else
        sonde_buf_printf(out, "all processes named %.*s", rest_len, rest);
}

/* Empty if no comment has it. */
static struct sonde_slice find_target(const struct sonde_profile *profile) {
    static const char *const keys[] = {"target: ", "service: "};
    struct sonde_slice name = {NULL, 0};
    for (size_t i = 0; i < sonde_profile_comment_count(profile) && !name.len; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys && !name.len; k++) {
            const char *comment = sonde_profile_comment(profile, i);
            size_t len = strlen(keys[k]);
            if (strncmp(comment, keys[k], len) == 0)
                name = target_of(comment + len);
        }
    return name;
}

bool draw_is_of_several(const struct sonde_profile *profile) {
    struct sonde_slice name = find_target(profile);
    bool is_history = name.len == 3 && memcmp(name.data, "all", 3) == 0;
    return is_history || (name.len >= 4 && memcmp(name.data, "@all", 4) == 0);
}

void draw_put_target(struct sonde_buf *out, const struct sonde_profile *profile) {
    struct sonde_slice name = find_target(profile);
    if (name.len)
        put_name(out, profile, name);
    else
        sonde_buf_puts(out, draw_program(profile));
}

/* ---- What was measured ---- */

/* Older heap profiles of pprof count the live heap in "space" and "objects". */
static const char *words_for(const char *type) {
    if (strcmp(type, "space") == 0)
        return sonde_events[SONDE_MEM_INUSE].amount.words;
    if (strcmp(type, "objects") == 0)
        return sonde_events[SONDE_MEM_INUSE].objects.words;
    return sonde_event_words(type);
}

const char *draw_measure(const struct sonde_profile *profile, size_t type_index) {
    const char *type = sonde_profile_type(profile, type_index).type, *words = words_for(type);
    if (!words && strcmp(type, "samples") == 0)
        words = words_for(sonde_profile_info(profile)->period_type.type);
    return words ? words : type;
}

bool draw_is_memory(const struct sonde_value_type *type) {
    return strcmp(type->unit, "bytes") == 0 || strstr(type->type, "objects") != NULL;
}

void draw_put_time(struct sonde_buf *out, int64_t unix_ns) {
    char text[SONDE_TIME_BYTES];
    sonde_buf_puts(out, sonde_time_utc(unix_ns, text));
}

void draw_put_duration(struct sonde_buf *out, int64_t nanoseconds) {
    double seconds = (double)nanoseconds / 1e9;
    if (seconds < 600)
        sonde_buf_printf(out, seconds < 9.95 ? "%.2g s" : "%.0f s", seconds);
    else if (seconds < 7200)
        sonde_buf_printf(out, "%.0f min", seconds / 60);
    else
        sonde_buf_printf(out, "%.4g h", seconds / 3600);
}

static bool is_per_time(const struct sonde_profile_info *info) {
    return info->period > 0 && strcmp(info->period_type.unit, "nanoseconds") == 0;
}

void draw_put_title(struct sonde_buf *out, const struct sonde_profile *profile,
                    const struct sonde_draw_options *options, const char *unknown_target) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    size_t before = out->len;
    draw_put_target(out, profile);
    if (out->len == before)
        sonde_buf_puts(out, unknown_target);
    sonde_buf_printf(out, ", %s", draw_measure(profile, options->type_index));
    if (options->comparison) {
        sonde_buf_puts(out, options->comparison->growth_only ? ", growth" : ", difference");
        return;
    }
    if (info->duration_ns > 0) {
        sonde_buf_puts(out, ", ");
        draw_put_duration(out, info->duration_ns);
    }
    if (info->duration_ns > 0 && is_per_time(info))
        sonde_buf_printf(out, " at %.0f Hz", 1e9 / (double)info->period);
    if (info->time_unix_ns > 0)
        sonde_buf_puts(out, ", ");
    draw_put_time(out, info->time_unix_ns);
}

/* ---- Differences ---- */

void draw_put_side(struct sonde_buf *out, const struct sonde_draw_side *side, const char *unit,
                   draw_value_writer *put_value) {
    sonde_buf_puts(out, side->name);
    if (side->time_unix_ns > 0)
        sonde_buf_puts(out, ", ");
    draw_put_time(out, side->time_unix_ns);
    if (side->duration_ns > 0) {
        sonde_buf_puts(out, ", ");
        draw_put_duration(out, side->duration_ns);
    }
    sonde_buf_puts(out, ", total ");
    put_value(out, side->total, unit);
}

static void put_change(struct sonde_buf *out, int64_t change, const char *unit,
                       draw_value_writer *put_value) {
    if (change > 0)
        sonde_buf_putc(out, '+');
    put_value(out, change, unit);
}

void draw_put_change(struct sonde_buf *out, int64_t change, const char *unit) {
    put_change(out, change, unit, draw_value);
}

void draw_put_total_change(struct sonde_buf *out, const struct sonde_draw_comparison *comparison,
                           const char *unit, draw_value_writer *put_value) {
    int64_t before = comparison->base.total, after = comparison->now.total, change;
    if (__builtin_sub_overflow(after, before, &change))
        change = after > before ? INT64_MAX : INT64_MIN;
    put_change(out, change, unit, put_value);
    if (before > 0 && change)
        sonde_buf_printf(out, " (%+.1f %% of the base)", draw_percent(change, before));
}
