/* SPDX-License-Identifier: Apache-2.0
 *
 * A window is preceded by the definitions that this call does not have yet. Those of a large window
 * may need several answers: what has been sent is stamped, so that the next answer goes on. */
#include "service/collect/encode.h"

#include <string.h>

/* The parts of an answer, as they grow. */
struct encoding {
    struct collect_link *link;
    struct session *session;
    struct sonde_arena *arena;
    Sonde__V1__CollectResponse *response;
    size_t bytes; /* about what the answer has when packed */
    size_t text_room, process_room, frame_room, stack_room, window_room, total_room;
    bool has_failed;
};

static bool is_full(const struct encoding *encoding) {
    return encoding->has_failed || encoding->bytes > ENCODE_DEFINITION_BYTES;
}

static void *alloc(struct encoding *encoding, size_t size) {
    void *memory = sonde_arena_alloc(encoding->arena, size);
    encoding->has_failed = encoding->has_failed || !memory;
    return memory;
}

/* Adds a message to a repeated field. */
static void push(struct encoding *encoding, void *array, size_t *count, size_t *room,
                 void *message) {
    void ***items = array;
    if (*count == *room) {
        size_t wanted = *room ? 2 * *room : 16;
        void **grown = alloc(encoding, wanted * sizeof *grown);
        if (!grown)
            return;
        if (*count)
            memcpy(grown, *items, *count * sizeof *grown);
        *items = grown;
        *room = wanted;
    }
    (*items)[(*count)++] = message;
}

/* ---- Definitions ---- */

static void define_text(struct encoding *encoding, uint32_t number) {
    struct table_text *text = &encoding->session->tables.texts[number];
    if (number == 0 || text->stamp == encoding->link->stamp || encoding->has_failed)
        return;
    Sonde__V1__CollectText *message = alloc(encoding, sizeof *message);
    if (!message)
        return;
    sonde__v1__collect_text__init(message);
    message->number = number;
    message->text = text->text;
    push(encoding, &encoding->response->texts, &encoding->response->n_texts, &encoding->text_room,
         message);
    text->stamp = encoding->link->stamp;
    encoding->bytes += strlen(text->text) + 10;
}

static void add_mappings(struct encoding *encoding, const struct table_process *process,
                         Sonde__V1__CollectProcess *message) {
    const struct table_text *texts = encoding->session->tables.texts;
    message->mappings = alloc(encoding, (process->mapping_count + 1) * sizeof(void *));
    for (size_t i = 0; i < process->mapping_count && message->mappings; i++) {
        const struct table_mapping *from = &process->mappings[i];
        Sonde__V1__CollectMapping *mapping = alloc(encoding, sizeof *mapping);
        if (!mapping)
            return;
        sonde__v1__collect_mapping__init(mapping);
        if (from->build_id)
            mapping->build_id = texts[from->build_id].text;
        if (from->path)
            mapping->path = texts[from->path].text;
        mapping->start = from->start;
        mapping->end = from->end;
        message->mappings[message->n_mappings++] = mapping;
        encoding->bytes += strlen(mapping->path) + strlen(mapping->build_id) + 24;
    }
}

static void add_labels(struct encoding *encoding, const struct table_process *process,
                       Sonde__V1__CollectProcess *message) {
    message->labels = alloc(encoding, (process->label_count + 1) * sizeof(void *));
    for (size_t i = 0; i < process->label_count && message->labels; i++) {
        Sonde__V1__CollectLabel *label = alloc(encoding, sizeof *label);
        if (!label)
            return;
        sonde__v1__collect_label__init(label);
        label->name = process->labels[2 * i];
        label->value = process->labels[2 * i + 1];
        message->labels[message->n_labels++] = label;
        encoding->bytes += strlen(label->name) + strlen(label->value) + 6;
    }
}

static void define_process(struct encoding *encoding, uint32_t number) {
    struct table_process *process = &encoding->session->tables.processes[number];
    if (process->stamp == encoding->link->stamp || encoding->has_failed)
        return;
    Sonde__V1__CollectProcess *message = alloc(encoding, sizeof *message);
    if (!message)
        return;
    sonde__v1__collect_process__init(message);
    message->number = number;
    message->service = process->service;
    message->instance = process->instance;
    message->pid = process->pid;
    message->start_unix_ns = process->start_unix_ns;
    add_labels(encoding, process, message);
    add_mappings(encoding, process, message);
    push(encoding, &encoding->response->processes, &encoding->response->n_processes,
         &encoding->process_room, message);
    process->stamp = encoding->link->stamp;
    encoding->bytes += strlen(process->service) + 64;
}

static void add_lines(struct encoding *encoding, const struct table_frame *frame,
                      Sonde__V1__CollectFrame *message) {
    message->lines = alloc(encoding, (frame->line_count + 1) * sizeof(void *));
    for (uint32_t i = 0; i < frame->line_count && message->lines; i++) {
        Sonde__V1__CollectLine *line = alloc(encoding, sizeof *line);
        if (!line)
            return;
        define_text(encoding, frame->lines[i].function);
        define_text(encoding, frame->lines[i].file);
        sonde__v1__collect_line__init(line);
        line->function = frame->lines[i].function;
        line->file = frame->lines[i].file;
        line->line = frame->lines[i].line;
        message->lines[message->n_lines++] = line;
        encoding->bytes += 12;
    }
}

static void define_frame(struct encoding *encoding, uint32_t number) {
    struct table_frame *frame = &encoding->session->tables.frames[number];
    if (frame->stamp == encoding->link->stamp || encoding->has_failed)
        return;
    Sonde__V1__CollectFrame *message = alloc(encoding, sizeof *message);
    if (!message)
        return;
    define_text(encoding, frame->build_id);
    define_text(encoding, frame->module);
    sonde__v1__collect_frame__init(message);
    message->number = number;
    message->id = frame->id;
    message->build_id = frame->build_id;
    message->module = frame->module;
    message->address = frame->address;
    message->kind = (Sonde__V1__FrameKind)frame->kind;
    message->version = frame->version;
    add_lines(encoding, frame, message);
    push(encoding, &encoding->response->frames, &encoding->response->n_frames,
         &encoding->frame_room, message);
    frame->stamp = encoding->link->stamp;
    encoding->bytes += 28;
}

/* Frames whose names have become better are told again with the next stack that has them. */
static void define_stack(struct encoding *encoding, uint32_t number) {
    struct table_stack *stack = &encoding->session->tables.stacks[number];
    for (uint32_t i = 0; i < stack->frame_count; i++)
        define_frame(encoding, stack->frames[i]);
    if (stack->stamp == encoding->link->stamp || encoding->has_failed)
        return;
    Sonde__V1__CollectStack *message = alloc(encoding, sizeof *message);
    if (!message)
        return;
    define_process(encoding, stack->process);
    sonde__v1__collect_stack__init(message);
    message->number = number;
    message->id = stack->id;
    message->process = stack->process;
    message->frames = stack->frames;
    message->n_frames = stack->frame_count;
    push(encoding, &encoding->response->stacks, &encoding->response->n_stacks,
         &encoding->stack_room, message);
    stack->stamp = encoding->link->stamp;
    encoding->bytes += 20 + 3 * stack->frame_count;
}

/* ---- Windows ---- */

/* False: there is more to define in the next answer. */
static bool define_window(struct encoding *encoding, const struct ring_item *item) {
    define_text(encoding, item->event);
    define_text(encoding, item->clock);
    define_process(encoding, item->process);
    for (uint32_t i = 0; i < item->thread_count; i++)
        define_text(encoding, item->threads[i]);
    for (uint32_t i = 0; i < item->row_count; i++) {
        if (is_full(encoding))
            return false;
        define_stack(encoding, item->rows[i].stack);
    }
    return !encoding->has_failed;
}

static void add_rows(struct encoding *encoding, const struct ring_item *item,
                     Sonde__V1__CollectWindow *message) {
    uint32_t before = 0;
    bool has_threads = false;
    message->stack = alloc(encoding, (item->row_count + 1) * sizeof *message->stack);
    message->thread = alloc(encoding, (item->row_count + 1) * sizeof *message->thread);
    message->value = alloc(encoding, (item->row_count + 1) * sizeof *message->value);
    if (encoding->has_failed)
        return;
    for (uint32_t i = 0; i < item->row_count; i++) {
        message->stack[i] = item->rows[i].stack - before;
        message->thread[i] = item->rows[i].thread;
        message->value[i] = item->rows[i].value;
        before = item->rows[i].stack;
        has_threads = has_threads || item->rows[i].thread != 0;
    }
    message->n_stack = message->n_value = item->row_count;
    message->n_thread = has_threads ? item->row_count : 0;
    encoding->bytes += 8 * (size_t)item->row_count;
}

static bool add_window(struct encoding *encoding, const struct ring_item *item) {
    if (!define_window(encoding, item))
        return false;
    Sonde__V1__CollectWindow *message = alloc(encoding, sizeof *message);
    if (!message)
        return false;
    sonde__v1__collect_window__init(message);
    message->seq = item->seq;
    message->process = item->process;
    message->event = item->event;
    message->clock = item->clock;
    message->begin_unix_s = item->begin_unix_s;
    message->length_s = item->length_s;
    message->period_ns = item->period_ns;
    message->weight = item->weight == 1 ? 0 : item->weight;
    message->samples = item->samples;
    message->dropped = item->dropped;
    message->truncated = item->truncated;
    message->cpu_from_ns = item->cpu_from_ns;
    message->cpu_until_ns = item->cpu_until_ns;
    message->merged = item->merged;
    message->threads = item->threads;
    message->n_threads = item->thread_count;
    add_rows(encoding, item, message);
    push(encoding, &encoding->response->windows, &encoding->response->n_windows,
         &encoding->window_room, message);
    encoding->bytes += 64;
    return !encoding->has_failed;
}

static bool add_totals(struct encoding *encoding, const struct ring_item *item) {
    for (uint32_t i = 0; i < item->row_count; i++) {
        Sonde__V1__CollectTotal *message = alloc(encoding, sizeof *message);
        if (!message)
            return false;
        define_text(encoding, item->rows[i].stack);
        define_text(encoding, item->rows[i].thread);
        sonde__v1__collect_total__init(message);
        message->seq = item->seq;
        message->begin_unix_s = item->begin_unix_s;
        message->length_s = item->length_s;
        message->process = item->rows[i].stack;
        message->thread = item->rows[i].thread;
        message->cpu_ns = item->rows[i].value;
        push(encoding, &encoding->response->totals, &encoding->response->n_totals,
             &encoding->total_room, message);
        encoding->bytes += 24;
    }
    return !encoding->has_failed;
}

static void add_items(struct encoding *encoding) {
    struct collect_link *link = encoding->link;
    struct session *session = encoding->session;
    for (struct ring_item *item = session->ring.first; item; item = item->next) {
        if (item->seq <= link->sent_seq)
            continue;
        bool is_added =
            !is_full(encoding) &&
            (item->kind == RING_TOTALS ? add_totals(encoding, item) : add_window(encoding, item));
        if (!is_added)
            return;
        item->is_sent = true;
        link->sent_seq = item->seq;
        if (item->seq > session->sent_seq)
            session->sent_seq = item->seq;
    }
}

/* ---- The other parts ---- */

static void add_hello(struct encoding *encoding) {
    struct session *session = encoding->session;
    Sonde__V1__CollectHello *hello = alloc(encoding, sizeof *hello);
    if (!hello)
        return;
    collect_identify(session->collect, encoding->arena, hello);
    hello->source = session->identity.source;
    hello->first_seq = session->ring.first ? session->ring.first->seq : session->next_seq;
    encoding->response->hello = hello;
    encoding->link->has_hello = true;
    encoding->bytes += 256;
}

static void add_settings(struct encoding *encoding) {
    encoding->response->settings = encoding->session->settings;
    encoding->link->has_settings = true;
    encoding->bytes += sonde__v1__collect_settings__get_packed_size(encoding->session->settings);
}

static void add_status(struct encoding *encoding, int64_t now_ns) {
    Sonde__V1__CollectStatus *status = alloc(encoding, sizeof *status);
    if (!status)
        return;
    sonde__v1__collect_status__init(status);
    session_status(encoding->session, encoding->arena, status);
    encoding->response->status = status;
    encoding->link->status_ns = now_ns;
    encoding->link->said_pending = session_is_pending(encoding->session);
    encoding->link->said_targets = encoding->session->targets > 0;
    encoding->link->said_refusal = encoding->session->refusal[0] != 0;
    encoding->session->reported_lost = session_lost(encoding->session);
    encoding->bytes += 64;
}

static void add_resent(struct encoding *encoding) {
    struct collect_link *link = encoding->link;
    for (; link->resend_at < link->resend_count && !is_full(encoding); link->resend_at++) {
        struct tables *tables = &encoding->session->tables;
        uint32_t number = tables_find_stack(tables, link->resend[link->resend_at]);
        if (number == 0 || tables->stacks[number].process == 0)
            continue;
        tables->stacks[number].stamp = 0;
        for (uint32_t i = 0; i < tables->stacks[number].frame_count; i++)
            tables->frames[tables->stacks[number].frames[i]].stamp = 0;
        define_stack(encoding, number);
    }
}

/* Whether max_bytes_per_s allows to send now. A second's bytes can be saved up. */
static bool may_send(struct collect_link *link, int64_t now_ns) {
    double rate = (double)link->session->settings->max_bytes_per_s;
    if (rate == 0) {
        link->is_throttled = false;
        return true;
    }
    link->allowance += rate * (double)(now_ns - link->allowance_ns) / NS_PER_S;
    link->allowance_ns = now_ns;
    if (link->allowance > rate)
        link->allowance = rate;
    link->is_throttled = link->allowance < 0;
    return !link->is_throttled;
}

sonde_err encode_next(struct collect_link *link, int64_t now_ns, struct sonde_arena *arena,
                      Sonde__V1__CollectResponse *response, bool *is_empty) {
    struct encoding encoding = {
        .link = link, .session = link->session, .arena = arena, .response = response};
    *is_empty = true;
    if (!may_send(link, now_ns))
        return SONDE_OK;
    bool is_first = !link->has_hello;
    if (is_first)
        add_hello(&encoding);
    if (!link->has_settings)
        add_settings(&encoding);
    if (is_first || session_status_is_due(link, now_ns))
        add_status(&encoding, now_ns);
    add_resent(&encoding);
    add_items(&encoding);
    if (encoding.has_failed)
        return SONDE_OUT_OF_MEMORY;
    *is_empty = encoding.bytes == 0;
    link->allowance -= (double)encoding.bytes;
    return SONDE_OK;
}
