/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of what is written. Batches come from other machines. */
#include "service/store/store.h"

#include <math.h>
#include <string.h>

static sonde_err refuse(struct sonde_diag *diag, const char *what, const char *bound) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must have %s", what, bound);
}

static sonde_err check_text(const char *text, size_t max, const char *what,
                            struct sonde_diag *diag) {
    if (text && strnlen(text, max + 1) <= max)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must have at most %zu bytes", what, max);
}

static sonde_err check_time(int64_t begin_unix_s, uint32_t length_s, struct sonde_diag *diag) {
    if (begin_unix_s < 0 || begin_unix_s > STORE_LAST_TIME)
        return refuse(diag, "begin_unix_s", "a time between 1970 and 2100");
    if (length_s < 1 || length_s > STORE_MAX_LENGTH)
        return refuse(diag, "length_s", "1 to 3600 seconds");
    return SONDE_OK;
}

static sonde_err check_names(const struct store_window *window, struct sonde_diag *diag) {
    const struct {
        const char *text, *what;
    } texts[] = {{window->event, "event"},
                 {window->service, "service"},
                 {window->host, "host"},
                 {window->instance, "instance"},
                 {window->clock, "clock"}};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && !err; i++)
        err = check_text(texts[i].text, STORE_MAX_TEXT, texts[i].what, diag);
    if (!err && (!window->event[0] || !window->service[0]))
        err = refuse(diag, "a window", "an event and a service");
    for (uint32_t i = 0; i < window->label_count && !err; i++) {
        err = check_text(window->labels[i].key, STORE_MAX_TEXT, "a label's name", diag);
        if (!err)
            err = check_text(window->labels[i].value, STORE_MAX_TEXT, "a label's value", diag);
    }
    for (uint32_t i = 0; i < window->thread_count && !err; i++)
        err = check_text(window->threads[i], STORE_MAX_TEXT, "a thread's name", diag);
    return err;
}

static sonde_err check_window(const struct store_window *window, struct sonde_diag *diag) {
    if (window->label_count > STORE_MAX_LABELS)
        return refuse(diag, "a window", "at most 64 labels");
    if (window->thread_count > STORE_MAX_THREADS)
        return refuse(diag, "a window", "at most 255 threads");
    if (!isfinite(window->weight) || window->weight <= 0 || window->weight > 1e9)
        return refuse(diag, "weight", "a value between 0 and 1e9");
    if (window->cpu_from_ns > window->cpu_until_ns || window->cpu_until_ns > INT64_MAX)
        return refuse(diag, "cpu_until_ns", "at least cpu_from_ns, and less than 2^63");
    sonde_err err = check_time(window->begin_unix_s, window->length_s, diag);
    if (!err)
        err = check_names(window, diag);
    for (uint32_t i = 0; i < window->row_count && !err; i++)
        if (window->thread[i] >= window->thread_count)
            err = refuse(diag, "thread", "an index into the window's threads");
    return err;
}

static sonde_err check_stack(const struct store_stack *stack, struct sonde_diag *diag) {
    if (stack->frame_count > STORE_MAX_DEPTH)
        return refuse(diag, "a stack", "at most 1,024 frames");
    return check_text(stack->service, STORE_MAX_TEXT, "a stack's service", diag);
}

static sonde_err check_frame(const struct store_frame *frame, struct sonde_diag *diag) {
    if (frame->line_count > STORE_MAX_LINES)
        return refuse(diag, "a frame", "at most 256 lines");
    sonde_err err = check_text(frame->build_id, STORE_MAX_TEXT, "a build-id", diag);
    if (!err)
        err = check_text(frame->module, STORE_MAX_TEXT, "a module", diag);
    for (uint32_t i = 0; i < frame->line_count && !err; i++) {
        err = check_text(frame->lines[i].function, STORE_MAX_SYMBOL, "a function", diag);
        if (!err)
            err = check_text(frame->lines[i].file, STORE_MAX_TEXT, "a file", diag);
    }
    return err;
}

static sonde_err check_total(const struct store_total *total, struct sonde_diag *diag) {
    sonde_err err = check_time(total->begin_unix_s, total->length_s, diag);
    if (!err)
        err = check_text(total->host, STORE_MAX_TEXT, "a host", diag);
    if (!err)
        err = check_text(total->process, STORE_MAX_TEXT, "a process", diag);
    return err ? err : check_text(total->thread, STORE_MAX_TEXT, "a thread's name", diag);
}

sonde_err store_check(const struct store_batch *batch, struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < batch->window_count && !err; i++)
        err = check_window(&batch->windows[i], diag);
    for (size_t i = 0; i < batch->stack_count && !err; i++)
        err = check_stack(&batch->stacks[i], diag);
    for (size_t i = 0; i < batch->frame_count && !err; i++)
        err = check_frame(&batch->frames[i], diag);
    for (size_t i = 0; i < batch->total_count && !err; i++)
        err = check_total(&batch->totals[i], diag);
    return err;
}
