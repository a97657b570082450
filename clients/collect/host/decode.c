/* SPDX-License-Identifier: Apache-2.0
 *
 * A request is filled with frames, stacks, windows and totals, in this order, and packed into an
 * entry when it is large enough. Everything but the entries is in an arena that lives as long as
 * one answer of the host. */
#include "clients/collect/host/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEM_BYTES 8 /* tag and length of a message in a request, rounded up */

struct decoding {
    struct decoder *decoder;
    struct sonde_arena arena;
    Sonde__V1__WriteRequest request;
    size_t bytes; /* of the request, when packed */
    struct decoded_entry **tail, *last;
    void (*on_window)(void *context, const Sonde__V1__StoredWindow *window);
    void *context;
    struct sonde_diag *diag;
};

void decoded_entry_free(struct decoded_entry *entry) {
    for (struct decoded_entry *next; entry; entry = next) {
        next = entry->next;
        sonde_buf_finish(&entry->bytes);
        free(entry);
    }
}

static sonde_err no_memory(struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for what a host sent");
}

/* ---- The decoder ---- */

static void free_labels(struct decoder *decoder) {
    for (size_t i = 0; i < decoder->label_count; i++) {
        free((char *)decoder->labels[i].name);
        free((char *)decoder->labels[i].value);
    }
    free(decoder->labels);
    decoder->labels = NULL;
    decoder->label_count = 0;
}

void decoder_init(struct decoder *decoder, struct passed *passed) {
    *decoder = (struct decoder){.passed = passed};
}

void decoder_finish(struct decoder *decoder) {
    dictionary_finish(&decoder->dictionary);
    free_labels(decoder);
}

static bool has_label(const struct dictionary_label *labels, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(labels[i].name, name) == 0)
            return true;
    return false;
}

/* The first label of a name counts. */
static bool add_label(struct decoder *decoder, const char *name, const char *value) {
    if (has_label(decoder->labels, decoder->label_count, name) ||
        decoder->label_count == DECODE_MAX_LABELS)
        return true;
    struct dictionary_label label = {strdup(name), strdup(value)};
    decoder->labels[decoder->label_count++] = label;
    return label.name && label.value;
}

sonde_err decoder_hello(struct decoder *decoder, const Sonde__V1__CollectHello *hello,
                        const char *name, const struct dictionary_label *extra, size_t extra_count,
                        struct sonde_diag *diag) {
    bool is_good = true;
    if (hello->source == 0)
        return sonde_fail(diag, SONDE_PROTOCOL, "the host's hello has no source");
    dictionary_finish(&decoder->dictionary);
    free_labels(decoder);
    decoder->has_hello = true;
    decoder->last_seq = 0;
    decoder->source = hello->source;
    decoder->epoch = hello->epoch;
    snprintf(decoder->host, sizeof decoder->host, "%s", hello->host[0] ? hello->host : name);
    decoder->labels = calloc(DECODE_MAX_LABELS, sizeof *decoder->labels);
    if (!decoder->labels)
        return no_memory(diag);
    for (size_t i = 0; i < hello->n_labels; i++)
        is_good = is_good && add_label(decoder, hello->labels[i]->name, hello->labels[i]->value);
    for (size_t i = 0; i < extra_count; i++)
        is_good = is_good && add_label(decoder, extra[i].name, extra[i].value);
    return is_good ? SONDE_OK : no_memory(diag);
}

/* ---- Requests and entries ---- */

static sonde_err begin(struct decoding *decoding, const Sonde__V1__CollectResponse *response) {
    Sonde__V1__WriteRequest *request = &decoding->request;
    struct sonde_arena *arena = &decoding->arena;
    sonde__v1__write_request__init(request);
    request->frames = sonde_arena_alloc(arena, (response->n_frames + 1) * sizeof(void *));
    request->stacks = sonde_arena_alloc(arena, (response->n_stacks + 1) * sizeof(void *));
    request->windows = sonde_arena_alloc(arena, (response->n_windows + 1) * sizeof(void *));
    request->totals = sonde_arena_alloc(arena, (response->n_totals + 1) * sizeof(void *));
    return request->frames && request->stacks && request->windows && request->totals
               ? SONDE_OK
               : no_memory(decoding->diag);
}

/* Packs what the request has. */
static sonde_err flush(struct decoding *decoding) {
    Sonde__V1__WriteRequest *request = &decoding->request;
    if (decoding->bytes == 0)
        return SONDE_OK;
    struct decoded_entry *entry = calloc(1, sizeof *entry);
    char *bytes =
        entry ? sonde_buf_extend(&entry->bytes, sonde__v1__write_request__get_packed_size(request))
              : NULL;
    if (!bytes) {
        free(entry);
        return no_memory(decoding->diag);
    }
    sonde__v1__write_request__pack(request, (uint8_t *)bytes);
    entry->windows = (uint32_t)request->n_windows;
    *decoding->tail = entry;
    decoding->tail = &entry->next;
    decoding->last = entry;
    decoding->bytes = 0;
    request->n_frames = request->n_stacks = request->n_windows = request->n_totals = 0;
    return SONDE_OK;
}

/* Makes room for a message, and counts it. */
static sonde_err reserve(struct decoding *decoding, const ProtobufCMessage *message) {
    size_t bytes = protobuf_c_message_get_packed_size(message) + ITEM_BYTES;
    sonde_err err = SONDE_OK;
    if (decoding->bytes > 0 && decoding->bytes + bytes > DECODE_ENTRY_BYTES)
        err = flush(decoding);
    decoding->bytes += bytes;
    return err;
}

/* ---- Frames and stacks ---- */

static sonde_err unknown(struct decoding *decoding, const char *what, uint32_t number) {
    return sonde_fail(decoding->diag, SONDE_PROTOCOL,
                      "the host referred to %s %u, which it has not defined", what, number);
}

static sonde_err read_lines(struct decoding *decoding, const Sonde__V1__CollectFrame *from,
                            Sonde__V1__StoredFrame *frame) {
    const struct dictionary *dictionary = &decoding->decoder->dictionary;
    frame->lines = sonde_arena_alloc(&decoding->arena, (from->n_lines + 1) * sizeof(void *));
    for (size_t i = 0; i < from->n_lines && frame->lines; i++) {
        Sonde__V1__StoredLine *line = sonde_arena_alloc(&decoding->arena, sizeof *line);
        if (!line)
            return no_memory(decoding->diag);
        sonde__v1__stored_line__init(line);
        line->function = (char *)dictionary_text(dictionary, from->lines[i]->function);
        line->file = (char *)dictionary_text(dictionary, from->lines[i]->file);
        line->line = from->lines[i]->line;
        if (!line->function || !line->file)
            return unknown(decoding, "the text of a line of frame", from->number);
        frame->lines[frame->n_lines++] = line;
    }
    return frame->lines ? SONDE_OK : no_memory(decoding->diag);
}

static sonde_err read_frame(struct decoding *decoding, const Sonde__V1__CollectFrame *from) {
    struct dictionary *dictionary = &decoding->decoder->dictionary;
    Sonde__V1__StoredFrame *frame = sonde_arena_alloc(&decoding->arena, sizeof *frame);
    if (!frame)
        return no_memory(decoding->diag);
    sonde__v1__stored_frame__init(frame);
    frame->id = from->id;
    frame->build_id = (char *)dictionary_text(dictionary, from->build_id);
    frame->module = (char *)dictionary_text(dictionary, from->module);
    frame->address = from->address;
    frame->kind = from->kind;
    frame->version = from->version;
    if (!frame->build_id || !frame->module)
        return unknown(decoding, "the text of frame", from->number);
    sonde_err err = read_lines(decoding, from, frame);
    if (!err)
        err = dictionary_add_frame(dictionary, from->number, from->id, decoding->diag);
    if (!err && decoding->decoder->passed &&
        !passed_needs_frame(decoding->decoder->passed, from->id, from->version, from->n_lines > 0))
        return SONDE_OK;
    if (!err)
        err = reserve(decoding, &frame->base);
    if (!err)
        decoding->request.frames[decoding->request.n_frames++] = frame;
    return err;
}

static sonde_err read_stack(struct decoding *decoding, const Sonde__V1__CollectStack *from) {
    struct dictionary *dictionary = &decoding->decoder->dictionary;
    const struct dictionary_process *process = dictionary_process(dictionary, from->process);
    Sonde__V1__StoredStack *stack = sonde_arena_alloc(&decoding->arena, sizeof *stack);
    uint64_t *frames = sonde_arena_alloc(&decoding->arena, (from->n_frames + 1) * sizeof *frames);
    if (!stack || !frames)
        return no_memory(decoding->diag);
    if (!process)
        return unknown(decoding, "process", from->process);
    for (size_t i = 0; i < from->n_frames; i++)
        if (!(frames[i] = dictionary_frame(dictionary, from->frames[i])))
            return unknown(decoding, "frame", from->frames[i]);
    sonde__v1__stored_stack__init(stack);
    stack->service = (char *)process->service;
    stack->id = from->id;
    stack->frames = frames;
    stack->n_frames = from->n_frames;
    sonde_err err = dictionary_add_stack(dictionary, from->number, from->id, decoding->diag);
    if (!err && decoding->decoder->passed &&
        !passed_needs_stack(decoding->decoder->passed, process->service, from->id))
        return SONDE_OK;
    if (!err)
        err = reserve(decoding, &stack->base);
    if (!err)
        decoding->request.stacks[decoding->request.n_stacks++] = stack;
    return err;
}

/* ---- Windows and totals ---- */

static bool put_label(struct decoding *decoding, Sonde__V1__StoredWindow *window,
                      const struct dictionary_label *from) {
    for (size_t i = 0; i < window->n_labels; i++)
        if (strcmp(window->labels[i]->name, from->name) == 0)
            return true;
    if (window->n_labels == DECODE_MAX_LABELS)
        return true;
    Sonde__V1__Label *label = sonde_arena_alloc(&decoding->arena, sizeof *label);
    if (!label)
        return false;
    sonde__v1__label__init(label);
    label->name = (char *)from->name;
    label->value = (char *)from->value;
    window->labels[window->n_labels++] = label;
    return true;
}

/* A process's own labels come first: they are the most exact. */
static sonde_err put_labels(struct decoding *decoding, const struct dictionary_process *process,
                            Sonde__V1__StoredWindow *window) {
    const struct decoder *decoder = decoding->decoder;
    bool is_good = true;
    window->labels = sonde_arena_alloc(&decoding->arena, DECODE_MAX_LABELS * sizeof(void *));
    if (!window->labels)
        return no_memory(decoding->diag);
    for (size_t i = 0; i < process->label_count && is_good; i++)
        is_good = put_label(decoding, window, &process->labels[i]);
    for (size_t i = 0; i < decoder->label_count && is_good; i++)
        is_good = put_label(decoding, window, &decoder->labels[i]);
    return is_good ? SONDE_OK : no_memory(decoding->diag);
}

static sonde_err put_threads(struct decoding *decoding, const Sonde__V1__CollectWindow *from,
                             Sonde__V1__StoredWindow *window) {
    const struct dictionary *dictionary = &decoding->decoder->dictionary;
    window->threads = sonde_arena_alloc(&decoding->arena, (from->n_threads + 1) * sizeof(char *));
    if (!window->threads)
        return no_memory(decoding->diag);
    for (size_t i = 0; i < from->n_threads; i++)
        if (!(window->threads[i] = (char *)dictionary_text(dictionary, from->threads[i])))
            return unknown(decoding, "the text of a thread,", from->threads[i]);
    window->n_threads = from->n_threads;
    return SONDE_OK;
}

static sonde_err put_rows(struct decoding *decoding, const Sonde__V1__CollectWindow *from,
                          Sonde__V1__StoredWindow *window) {
    const struct dictionary *dictionary = &decoding->decoder->dictionary;
    size_t count = from->n_stack;
    uint32_t number = 0;
    if (from->n_value != count || (from->n_thread != count && from->n_thread != 0))
        return sonde_fail(decoding->diag, SONDE_PROTOCOL,
                          "the columns of window %llu have %zu, %zu and %zu rows",
                          (unsigned long long)from->seq, count, from->n_thread, from->n_value);
    window->stack = sonde_arena_alloc(&decoding->arena, (count + 1) * sizeof *window->stack);
    window->thread =
        from->n_thread ? from->thread
                       : sonde_arena_alloc(&decoding->arena, (count + 1) * sizeof *window->thread);
    if (!window->stack || !window->thread)
        return no_memory(decoding->diag);
    for (size_t i = 0; i < count; i++) {
        number += from->stack[i];
        if (!(window->stack[i] = dictionary_stack(dictionary, number)))
            return unknown(decoding, "stack", number);
    }
    window->n_stack = window->n_thread = window->n_value = count;
    window->value = from->value;
    return SONDE_OK;
}

static void copy_numbers(const Sonde__V1__CollectWindow *from, Sonde__V1__StoredWindow *window) {
    window->seq = from->seq;
    window->begin_unix_s = from->begin_unix_s;
    window->length_s = from->length_s;
    window->period_ns = from->period_ns;
    window->weight = from->weight;
    window->samples = from->samples;
    window->dropped = from->dropped;
    window->truncated = from->truncated;
    window->cpu_from_ns = from->cpu_from_ns;
    window->cpu_until_ns = from->cpu_until_ns;
}

static void count_seq(struct decoder *decoder, uint64_t seq) {
    if (seq > decoder->last_seq)
        decoder->last_seq = seq;
}

static sonde_err fill_window(struct decoding *decoding, const Sonde__V1__CollectWindow *from,
                             Sonde__V1__StoredWindow *window) {
    const struct decoder *decoder = decoding->decoder;
    const struct dictionary *dictionary = &decoder->dictionary;
    const struct dictionary_process *process = dictionary_process(dictionary, from->process);
    if (!process)
        return unknown(decoding, "process", from->process);
    sonde__v1__stored_window__init(window);
    window->source = decoder->source;
    window->epoch = decoder->epoch;
    window->event = (char *)dictionary_text(dictionary, from->event);
    window->clock = (char *)dictionary_text(dictionary, from->clock);
    if (!window->event || !window->clock)
        return unknown(decoding, "the texts of a window,", from->event);
    window->service = (char *)process->service;
    window->host = (char *)decoder->host;
    window->instance = (char *)process->instance;
    window->pid = process->pid;
    window->start_unix_ns = process->start_unix_ns;
    copy_numbers(from, window);
    sonde_err err = put_labels(decoding, process, window);
    if (!err)
        err = put_threads(decoding, from, window);
    return err ? err : put_rows(decoding, from, window);
}

static sonde_err read_window(struct decoding *decoding, const Sonde__V1__CollectWindow *from) {
    struct decoder *decoder = decoding->decoder;
    Sonde__V1__StoredWindow *window = sonde_arena_alloc(&decoding->arena, sizeof *window);
    if (!window)
        return no_memory(decoding->diag);
    sonde_err err = fill_window(decoding, from, window);
    if (err)
        return err;
    if (protobuf_c_message_get_packed_size(&window->base) + ITEM_BYTES > DECODE_MAX_ENTRY) {
        decoder->too_large++;
        count_seq(decoder, from->seq);
        return SONDE_OK;
    }
    err = reserve(decoding, &window->base);
    if (err)
        return err;
    decoding->request.windows[decoding->request.n_windows++] = window;
    count_seq(decoder, from->seq);
    decoder->windows++;
    decoder->rows += window->n_stack;
    decoder->samples += window->samples;
    if (decoding->on_window)
        decoding->on_window(decoding->context, window);
    return SONDE_OK;
}

static sonde_err read_total(struct decoding *decoding, const Sonde__V1__CollectTotal *from) {
    const struct decoder *decoder = decoding->decoder;
    Sonde__V1__StoredTotal *total = sonde_arena_alloc(&decoding->arena, sizeof *total);
    if (!total)
        return no_memory(decoding->diag);
    sonde__v1__stored_total__init(total);
    total->source = decoder->source;
    total->epoch = decoder->epoch;
    total->seq = from->seq;
    total->host = (char *)decoder->host;
    total->begin_unix_s = from->begin_unix_s;
    total->length_s = from->length_s;
    total->process = (char *)dictionary_text(&decoder->dictionary, from->process);
    total->thread = (char *)dictionary_text(&decoder->dictionary, from->thread);
    total->cpu_ns = from->cpu_ns;
    if (!total->process || !total->thread)
        return unknown(decoding, "the texts of a total,", from->process);
    sonde_err err = reserve(decoding, &total->base);
    if (err)
        return err;
    decoding->request.totals[decoding->request.n_totals++] = total;
    count_seq(decoding->decoder, from->seq);
    return SONDE_OK;
}

/* ---- One answer ---- */

static sonde_err read_definitions(struct decoding *decoding,
                                  const Sonde__V1__CollectResponse *from) {
    struct dictionary *dictionary = &decoding->decoder->dictionary;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < from->n_texts && !err; i++)
        err = dictionary_add_text(dictionary, from->texts[i], decoding->diag);
    for (size_t i = 0; i < from->n_processes && !err; i++)
        err = dictionary_add_process(dictionary, from->processes[i], decoding->diag);
    for (size_t i = 0; i < from->n_frames && !err; i++)
        err = read_frame(decoding, from->frames[i]);
    for (size_t i = 0; i < from->n_stacks && !err; i++)
        err = read_stack(decoding, from->stacks[i]);
    return err;
}

sonde_err decoder_read(struct decoder *decoder, const Sonde__V1__CollectResponse *response,
                       void (*on_window)(void *context, const Sonde__V1__StoredWindow *window),
                       void *context, struct decoded_entry **entries, struct sonde_diag *diag) {
    struct decoding decoding = {.decoder = decoder,
                                .tail = entries,
                                .on_window = on_window,
                                .context = context,
                                .diag = diag};
    *entries = NULL;
    if (!decoder->has_hello)
        return sonde_fail(diag, SONDE_PROTOCOL, "the host's first message has no hello");
    sonde_err err = begin(&decoding, response);
    if (!err)
        err = read_definitions(&decoding, response);
    for (size_t i = 0; i < response->n_windows && !err; i++)
        err = read_window(&decoding, response->windows[i]);
    for (size_t i = 0; i < response->n_totals && !err; i++)
        err = read_total(&decoding, response->totals[i]);
    sonde_err last = flush(&decoding);
    /* Totals can have smaller numbers than the windows before them, so only the end of an answer
     * says that everything up to a number is there. */
    if (!err && !last && decoding.last) {
        decoding.last->last_seq = decoder->last_seq;
        decoder->last_seq = 0;
    }
    sonde_arena_finish(&decoding.arena);
    return err ? err : last;
}
