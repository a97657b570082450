/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/locks/print.h"

#include "api/draw/names/readable_name.h"
#include "api/draw/render.h"
#include "api/text/utf8.h"
#include "clients/cli/cli.h"
#include "clients/cli/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANOSECONDS "nanoseconds"

/* --- text ------------------------------------------------------------------------------------- */

static void print_value(int64_t value, const char *unit, int columns) {
    struct sonde_buf text = {0};
    draw_value(&text, value, unit);
    for (size_t i = 0; i < text.len; i++)
        columns -= !sonde_utf8_continues(text.data[i]);
    printf("%*s%s", columns > 0 ? columns : 0, "", text.failed ? "" : text.data);
    sonde_buf_finish(&text);
}

static void print_name(const struct sonde_lock *lock) {
    const char *kind = sonde_wait_kind_name(lock->kind);
    printf("%s ", kind);
    cli_put_whole_name(stdout, lock->name[0] ? lock->name : "(address unknown)");
    if (lock->pid)
        printf(" (pid %" PRId64 ")", lock->pid);
    putchar('\n');
}

static void print_owners(const struct sonde_lock *lock) {
    const char *separator = "held by ";
    int64_t rest_ns = lock->owned_ns;
    if (lock->owned_ns == 0)
        return;
    printf("%44s", "");
    for (uint32_t i = 0; i < lock->owner_count; i++, separator = ", ") {
        fputs(separator, stdout);
        cli_put_name(stdout, lock->owners[i].name);
        printf(" %.0f %%", draw_percent(lock->owners[i].ns, lock->ns));
        rest_ns -= lock->owners[i].ns;
    }
    if (rest_ns > 0)
        printf(", other threads %.0f %%", draw_percent(rest_ns, lock->ns));
    if (lock->ns > lock->owned_ns)
        printf(", unknown %.0f %%", draw_percent(lock->ns - lock->owned_ns, lock->ns));
    putchar('\n');
}

static void print_function(const struct sonde_lock *lock) {
    struct sonde_buf name = {0};
    if (!lock->function[0])
        return;
    draw_readable_name(&name, lock->function, false);
    printf("%44sin ", "");
    cli_put_whole_name(stdout, name.failed ? lock->function : name.data);
    printf(" %.0f %%\n", draw_percent(lock->function_ns, lock->ns));
    sonde_buf_finish(&name);
}

static void print_lock(const struct sonde_lock_table *table, const struct sonde_lock *lock) {
    print_value(lock->ns, NANOSECONDS, 10);
    printf("%5.0f %%", draw_percent(lock->ns, table->ns));
    print_value(lock->waits, "count", 9);
    print_value(lock->waits ? lock->ns / lock->waits : 0, NANOSECONDS, 10);
    printf("%6u  ", lock->threads);
    print_name(lock);
    print_function(lock);
    print_owners(lock);
}

static void print_rest(const char *before, const struct sonde_lock_rest *rest, const char *after) {
    if (rest->ns == 0)
        return;
    fputs(before, stdout);
    print_value(rest->ns, NANOSECONDS, 0);
    puts(after);
}

static void print_title(const struct sonde_lock_table *table, const struct capture_result *result) {
    cli_put_name(stdout, result->target);
    if (result->pid)
        printf(" (pid %" PRId32 ")", result->pid);
    printf(", %.1f s: ", result->duration_ms / 1000.0);
    if (table->count == 0) {
        puts(result->dropped ? "no wait for a lock was recorded" : "no thread waited for a lock");
        return;
    }
    print_value(table->waits, "count", 0);
    printf(" wait%s for %zu lock%s, ", table->waits == 1 ? "" : "s", table->count,
           table->count == 1 ? "" : "s");
    print_value(table->ns, NANOSECONDS, 0);
    puts(" of waiting\n");
}

void locks_print_text(const struct sonde_lock_table *table, const struct capture_result *result,
                      uint64_t rows) {
    size_t shown = rows && rows < table->count ? rows : table->count;
    print_title(table, result);
    if (table->count)
        puts("    WAITED  SHARE    WAITS      MEAN THREADS  LOCK");
    for (size_t i = 0; i < shown; i++)
        print_lock(table, &table->locks[i]);
    if (shown < table->count)
        printf("and %zu more locks (-n 0: all)\n", table->count - shown);
    if (table->count)
        putchar('\n');
    print_rest("waiting for work (condition variables, semaphores, ends of threads): ",
               &table->work, ", left out; --all-waits lists it");
    print_rest("sleeps, input and output, and waits for a CPU: ", &table->rest, ", left out");
}

/* --- notes ------------------------------------------------------------------------------------ */

/* The profile's next comment about locks, from *index on; NULL = none. */
static const char *next_comment(const struct sonde_profile *profile, size_t *index) {
    static const char about[] = "locks: ";
    while (*index < sonde_profile_comment_count(profile)) {
        const char *comment = sonde_profile_comment(profile, (*index)++);
        if (strncmp(comment, about, sizeof about - 1) == 0)
            return comment;
    }
    return NULL;
}

void locks_print_notes(const struct sonde_profile *profile, const struct capture_result *result) {
    const char *comment;
    cli_put_line(stderr, "note: ", result->clock_note);
    cli_put_line(stderr, "overhead ceiling: ", result->budget_note);
    for (size_t i = 0; (comment = next_comment(profile, &i));)
        cli_put_line(stderr, "note: ", comment);
    if (result->dropped)
        fprintf(stderr, "note: %" PRIu64 " sample%s dropped\n", result->dropped,
                result->dropped == 1 ? "" : "s");
    if (result->target_gone)
        fputs("note: the target exited early\n", stderr);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void put_pair(struct sonde_buf *out, const char *key, const char *text) {
    sonde_buf_printf(out, "\"%s\":", key);
    json_text(out, text);
}

static void put_owners(struct sonde_buf *out, const struct sonde_lock *lock) {
    sonde_buf_printf(out, ",\"ownedNs\":%" PRId64 ",\"owners\":[", lock->owned_ns);
    for (uint32_t i = 0; i < lock->owner_count; i++) {
        sonde_buf_puts(out, i ? ",{" : "{");
        put_pair(out, "thread", lock->owners[i].name);
        sonde_buf_printf(out, ",\"ns\":%" PRId64 "}", lock->owners[i].ns);
    }
    sonde_buf_puts(out, "]}");
}

static void put_lock(struct sonde_buf *out, const struct sonde_lock *lock) {
    sonde_buf_putc(out, '{');
    put_pair(out, "kind", sonde_wait_kind_name(lock->kind));
    sonde_buf_putc(out, ',');
    put_pair(out, "name", lock->name);
    if (lock->pid)
        sonde_buf_printf(out, ",\"pid\":%" PRId64, lock->pid);
    sonde_buf_printf(out, ",\"waits\":%" PRId64 ",\"ns\":%" PRId64 ",\"threads\":%u,", lock->waits,
                     lock->ns, lock->threads);
    put_pair(out, "function", lock->function);
    sonde_buf_printf(out, ",\"functionNs\":%" PRId64, lock->function_ns);
    put_owners(out, lock);
}

static void put_notes(struct sonde_buf *out, const struct sonde_profile *profile,
                      const struct capture_result *result) {
    const char *comment, *separator = result->budget_note[0] ? "," : "";
    sonde_buf_puts(out, ",\"notes\":[");
    if (result->budget_note[0])
        json_text(out, result->budget_note);
    for (size_t i = 0; (comment = next_comment(profile, &i)); separator = ",") {
        sonde_buf_puts(out, separator);
        json_text(out, comment);
    }
    sonde_buf_putc(out, ']');
}

void locks_print_json(const struct sonde_lock_table *table, const struct sonde_profile *profile,
                      const struct capture_result *result) {
    struct sonde_buf text = {0};
    sonde_buf_putc(&text, '{');
    put_pair(&text, "target", result->target);
    sonde_buf_printf(&text, ",\"pid\":%" PRId32 ",\"durationMs\":%u,\"dropped\":%" PRIu64 ",",
                     result->pid, result->duration_ms, result->dropped);
    put_pair(&text, "clockNote", result->clock_note);
    put_notes(&text, profile, result);
    sonde_buf_puts(&text, ",\"locks\":[");
    for (size_t i = 0; i < table->count; i++) {
        sonde_buf_puts(&text, i ? "," : "");
        put_lock(&text, &table->locks[i]);
    }
    sonde_buf_printf(&text, "],\"workNs\":%" PRId64 ",\"otherNs\":%" PRId64 "}", table->work.ns,
                     table->rest.ns);
    if (!text.failed)
        puts(text.data);
    sonde_buf_finish(&text);
}
