/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a thread. */
#include "api/draw/formats/firefox.h"
#include "api/draw/render.h"
#include "api/profile/timeline.h"

#include <string.h>

#define NOTHING UINT32_MAX

/* Indexes into the categories in meta. */
static const unsigned char categories[] = {
    [SONDE_FRAME_UNKNOWN] = 0, [SONDE_FRAME_APPLICATION] = 1, [SONDE_FRAME_LIBRARY] = 2,
    [SONDE_FRAME_KERNEL] = 3,  [SONDE_FRAME_JIT] = 4,         [SONDE_FRAME_NOTE] = 0};

bool firefox_is_thread(const struct firefox *state, uint32_t number) {
    const struct draw_node *node = draw_tree_node(state->tree, number);
    return node->depth == 1 && draw_tree_frame(state->tree, node->frame)->is_thread;
}

/* ---- Functions and libraries ---- */

/* Writes the value of an item. */
typedef void put_item(const struct firefox *state, uint32_t item);

static void put_column(const struct firefox *state, const char *name, uint32_t count,
                       put_item *put) {
    sonde_buf_printf(state->out, ",\"%s\":[", name);
    for (uint32_t i = 0; i < count && !state->out->failed; i++) {
        if (i)
            sonde_buf_putc(state->out, ',');
        put(state, i);
    }
    sonde_buf_putc(state->out, ']');
}

static void put_constants(const struct firefox *state, const char *const *names, size_t name_count,
                          uint32_t count, const char *value) {
    for (size_t i = 0; i < name_count; i++) {
        sonde_buf_printf(state->out, ",\"%s\":[", names[i]);
        for (uint32_t k = 0; k < count && !state->out->failed; k++)
            sonde_buf_printf(state->out, k ? ",%s" : "%s", value);
        sonde_buf_putc(state->out, ']');
    }
}

#define PUT_CONSTANTS(state, count, value, ...)                                  \
    do {                                                                         \
        static const char *const names[] = {__VA_ARGS__};                        \
        put_constants(state, names, sizeof names / sizeof *names, count, value); \
    } while (0)

static const struct draw_frame *function_frame(const struct firefox *state, uint32_t function) {
    return draw_tree_frame(state->tree, state->functions[function]);
}

static void put_number(const struct firefox *state, uint32_t item) {
    sonde_buf_printf(state->out, "%u", item);
}

static void put_category(const struct firefox *state, uint32_t function) {
    unsigned kind = function_frame(state, function)->kind;
    sonde_buf_printf(state->out, "%u", kind < sizeof categories ? categories[kind] : 0);
}

static void put_name(const struct firefox *state, uint32_t function) {
    const char *name = function_frame(state, function)->name;
    sonde_buf_printf(state->out, "%u", firefox_texts_find(&state->strings, name));
}

static void put_source(const struct firefox *state, uint32_t function) {
    const char *source = function_frame(state, function)->source;
    if (source)
        sonde_buf_printf(state->out, "%u", firefox_texts_find(&state->strings, source));
    else
        sonde_buf_puts(state->out, "null");
}

static void put_start_line(const struct firefox *state, uint32_t function) {
    const struct draw_frame *frame = function_frame(state, function);
    if (frame->source && frame->start_line > 0)
        sonde_buf_printf(state->out, "%lld", (long long)frame->start_line);
    else
        sonde_buf_puts(state->out, "null");
}

static void put_resource(const struct firefox *state, uint32_t function) {
    const char *module = function_frame(state, function)->module;
    sonde_buf_printf(state->out, "%d", (int)firefox_texts_find(&state->modules, module));
}

static void put_functions(const struct firefox *state) {
    uint32_t count = state->function_count;
    sonde_buf_printf(state->out, ",\n\"frameTable\":{\"length\":%u", count);
    put_column(state, "func", count, put_number);
    put_column(state, "category", count, put_category);
    PUT_CONSTANTS(state, count, "-1", "address");
    PUT_CONSTANTS(state, count, "0", "inlineDepth", "subcategory");
    PUT_CONSTANTS(state, count, "null", "nativeSymbol", "innerWindowID", "implementation", "line",
                  "column");
    sonde_buf_printf(state->out, "},\n\"funcTable\":{\"length\":%u", count);
    put_column(state, "name", count, put_name);
    put_column(state, "resource", count, put_resource);
    PUT_CONSTANTS(state, count, "false", "isJS", "relevantForJS");
    put_column(state, "fileName", count, put_source);
    put_column(state, "lineNumber", count, put_start_line);
    PUT_CONSTANTS(state, count, "null", "columnNumber");
    sonde_buf_putc(state->out, '}');
}

static void put_resource_lib(const struct firefox *state, uint32_t resource) {
    sonde_buf_printf(state->out, "%u", firefox_texts_get(&state->modules, resource)->value);
}

static void put_resource_name(const struct firefox *state, uint32_t resource) {
    const char *module = firefox_texts_get(&state->modules, resource)->text;
    sonde_buf_printf(state->out, "%u", firefox_texts_find(&state->strings, module));
}

static void put_resources(const struct firefox *state) {
    uint32_t count = state->modules.table.count;
    sonde_buf_printf(state->out, ",\n\"resourceTable\":{\"length\":%u", count);
    put_column(state, "lib", count, put_resource_lib);
    put_column(state, "name", count, put_resource_name);
    PUT_CONSTANTS(state, count, "null", "host");
    PUT_CONSTANTS(state, count, "1", "type"); /* library */
    sonde_buf_puts(state->out, "},\n\"nativeSymbols\":{\"length\":0,\"address\":[],"
                               "\"functionSize\":[],\"libIndex\":[],\"name\":[]}");
}

/* ---- Stacks and samples ---- */

/* The thread's node of a stack. Only the first node of a thread has none. */
static uint32_t node_of(const struct firefox *state, uint32_t stack) {
    return state->order[state->begin[state->current] + 1 + stack];
}

static void put_prefix(const struct firefox *state, uint32_t stack) {
    uint32_t parent = draw_tree_node(state->tree, node_of(state, stack))->parent;
    if (state->row[parent] == NOTHING)
        sonde_buf_puts(state->out, "null");
    else
        sonde_buf_printf(state->out, "%u", state->row[parent]);
}

static uint32_t stack_function(const struct firefox *state, uint32_t stack) {
    return state->function_of[draw_tree_node(state->tree, node_of(state, stack))->frame];
}

static void put_stack_frame(const struct firefox *state, uint32_t stack) {
    put_number(state, stack_function(state, stack));
}

static void put_stack_category(const struct firefox *state, uint32_t stack) {
    put_category(state, stack_function(state, stack));
}

static void put_stacks(const struct firefox *state) {
    sonde_buf_printf(state->out, ",\n\"stackTable\":{\"length\":%u", state->stack_count);
    put_column(state, "prefix", state->stack_count, put_prefix);
    put_column(state, "frame", state->stack_count, put_stack_frame);
    put_column(state, "category", state->stack_count, put_stack_category);
    PUT_CONSTANTS(state, state->stack_count, "0", "subcategory");
    sonde_buf_putc(state->out, '}');
}

struct rows {
    struct sonde_buf stacks, times, weights;
    uint32_t count;
};

static void add_row(const struct firefox *state, struct rows *rows, uint32_t node, double time_ms,
                    int64_t value) {
    uint32_t stack = state->row[node];
    const char *comma = rows->count++ ? "," : "";
    sonde_buf_printf(&rows->stacks, stack == NOTHING ? "%snull" : "%s%u", comma, stack);
    sonde_buf_printf(&rows->times, "%s%.6f", comma, time_ms);
    if (state->to_ms > 0)
        sonde_buf_printf(&rows->weights, "%s%.6f", comma, (double)value * state->to_ms);
    else
        sonde_buf_printf(&rows->weights, "%s%lld", comma, (long long)value);
}

/* The stacks one after another. */
static void add_nodes(const struct firefox *state, struct rows *rows) {
    double now = 0;
    for (uint32_t i = state->begin[state->current]; i < state->begin[state->current + 1]; i++) {
        int64_t self = draw_tree_node(state->tree, state->order[i])->self;
        if (self <= 0)
            continue;
        add_row(state, rows, state->order[i], now, self);
        now += state->to_ms > 0 ? (double)self * state->to_ms : 1;
    }
}

/* The index of the first event of the thread, or of a later one if it has none. */
static size_t first_event(const struct firefox *state, uint32_t thread) {
    size_t low = 0, high = state->event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->events[middle].thread < thread)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The events in their bins. */
static void add_events(const struct firefox *state, struct rows *rows) {
    const struct firefox_event *events = state->events;
    size_t last = first_event(state, state->current + 1), end;
    for (size_t i = first_event(state, state->current); i < last; i = end) {
        for (end = i + 1; end < last && events[end].bin == events[i].bin;)
            end++;
        for (size_t at = i; at < end; at++) {
            double part = (double)(at - i) / (double)(end - i);
            add_row(state, rows, events[at].node, SONDE_TIMELINE_BIN_MS * (events[i].bin + part),
                    events[at].value);
        }
    }
}

static void put_samples(const struct firefox *state) {
    struct rows rows = {.count = 0};
    if (state->events)
        add_events(state, &rows);
    else
        add_nodes(state, &rows);
    sonde_buf_printf(state->out,
                     ",\n\"samples\":{\"length\":%u,\"weightType\":\"%s\",\"stack\":[%s],"
                     "\n\"time\":[%s],\n\"weight\":[%s]}",
                     rows.count, state->weight_type, rows.stacks.data ? rows.stacks.data : "",
                     rows.times.data ? rows.times.data : "",
                     rows.weights.data ? rows.weights.data : "");
    state->out->failed |= rows.stacks.failed || rows.times.failed || rows.weights.failed;
    sonde_buf_finish(&rows.stacks);
    sonde_buf_finish(&rows.times);
    sonde_buf_finish(&rows.weights);
}

/* ---- Threads ---- */

/* Numbers the stacks, functions, strings and modules of the current thread. */
static sonde_err number_items(struct firefox *state) {
    state->function_count = state->stack_count = 0;
    for (uint32_t i = state->begin[state->current]; i < state->begin[state->current + 1]; i++) {
        uint32_t number = state->order[i], frame = draw_tree_node(state->tree, number)->frame;
        state->row[number] = NOTHING;
        if (number == DRAW_TREE_ROOT || firefox_is_thread(state, number))
            continue;
        state->row[number] = state->stack_count++;
        if (state->function_of[frame] != NOTHING)
            continue;
        state->function_of[frame] = state->function_count;
        state->functions[state->function_count++] = frame;
        const struct draw_frame *item = draw_tree_frame(state->tree, frame);
        uint32_t lib = firefox_texts_find(&state->libs, item->module);
        if (firefox_texts_add(&state->strings, item->name, 0) == PROFILE_TABLE_NONE ||
            (item->source &&
             firefox_texts_add(&state->strings, item->source, 0) == PROFILE_TABLE_NONE))
            return SONDE_OUT_OF_MEMORY;
        if (lib != PROFILE_TABLE_NONE &&
            (firefox_texts_add(&state->modules, item->module, lib) == PROFILE_TABLE_NONE ||
             firefox_texts_add(&state->strings, item->module, 0) == PROFILE_TABLE_NONE))
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

static void put_thread_header(const struct firefox *state, const char *name, uint32_t index) {
    struct sonde_buf *out = state->out;
    sonde_buf_puts(out, index ? ",\n{\"name\":" : "\n{\"name\":");
    draw_json(out, name);
    sonde_buf_puts(out, ",\"processName\":");
    draw_json(out, state->process);
    sonde_buf_printf(out,
                     ",\"isMainThread\":%s,\"pid\":\"0\",\"tid\":\"%u\","
                     "\"processType\":\"default\",\"processStartupTime\":0,"
                     "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
                     "\"pausedRanges\":[],\n\"markers\":{\"length\":0,\"category\":[],\"data\":[],"
                     "\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]}",
                     state->current == state->main_thread ? "true" : "false", index + 1);
}

sonde_err firefox_put_thread(struct firefox *state, const char *name, uint32_t index) {
    firefox_texts_init(&state->strings);
    firefox_texts_init(&state->modules);
    sonde_err err = number_items(state);
    if (!err) {
        put_thread_header(state, name, index);
        put_functions(state);
        put_resources(state);
        put_stacks(state);
        put_samples(state);
        sonde_buf_puts(state->out, ",\n\"stringArray\":");
        firefox_texts_put(&state->strings, state->out);
        sonde_buf_putc(state->out, '}');
    }
    for (uint32_t i = 0; i < state->function_count; i++)
        state->function_of[state->functions[i]] = NOTHING;
    firefox_texts_finish(&state->strings);
    firefox_texts_finish(&state->modules);
    return err;
}
