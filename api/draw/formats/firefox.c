/* SPDX-License-Identifier: Apache-2.0
 *
 * Firefox's processed profile format, version 49, which profiler.firefox.com, samply and Perfetto
 * read and newer versions of the viewer convert.
 *
 * Every table is an object of columns of the same length. A thread has its own strings, functions,
 * frames and stacks. A node of the call tree is a stack: its prefix is its parent, and parents come
 * first. Frames have no addresses, because the tree's frames are functions.
 *
 * The profile has no times of its samples. A thread's stacks follow each other in the order of the
 * tree, each for as long as its samples took altogether; meta.extra says so. */
#include "api/draw/formats/firefox.h"
#include "api/draw/render.h"
#include "api/draw/tree.h"

#include <stdlib.h>
#include <string.h>

#define NO_THREAD 0 /* the stacks that are below no thread */
#define NOTHING   UINT32_MAX
#define COMM      15 /* bytes of a thread's name */

/* Indexes into the categories in meta. */
static const unsigned char categories[] = {
    [SONDE_FRAME_UNKNOWN] = 0, [SONDE_FRAME_APPLICATION] = 1, [SONDE_FRAME_LIBRARY] = 2,
    [SONDE_FRAME_KERNEL] = 3,  [SONDE_FRAME_JIT] = 4,         [SONDE_FRAME_NOTE] = 0};

static const char meta_categories[] =
    "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Application\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Library\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
    "{\"name\":\"JIT\",\"color\":\"green\",\"subcategories\":[\"Other\"]}]";

struct firefox {
    const struct sonde_profile *profile;
    const struct draw_tree *tree;
    struct sonde_buf *out;
    struct firefox_texts libs;
    double to_ms; /* 0 = the values are not times */
    const char *weight_type;
    const char *process;
    /* Nodes by thread: of thread t, order[begin[t]] to order[begin[t + 1]]. */
    uint32_t *thread_of, *order, *begin, *thread_nodes;
    uint32_t thread_count; /* with NO_THREAD */
    uint32_t current;      /* thread, while walking */
    uint32_t main_thread;
    uint32_t *row; /* by node: its stack in its thread; NOTHING = no stack */
    /* Of one thread. */
    struct firefox_texts strings, modules;
    uint32_t *function_of; /* by frame: its function, or NOTHING */
    uint32_t *functions;   /* frames by function */
    uint32_t function_count, stack_count;
};

/* ---- Nodes by thread ---- */

static bool is_thread(const struct firefox *state, uint32_t number) {
    const struct draw_node *node = draw_tree_node(state->tree, number);
    return node->depth == 1 && draw_tree_frame(state->tree, node->frame)->is_thread;
}

static void on_assign(void *context, uint32_t number) {
    struct firefox *state = context;
    if (draw_tree_node(state->tree, number)->depth <= 1)
        state->current = NO_THREAD;
    if (is_thread(state, number)) {
        state->current = state->thread_count++;
        state->thread_nodes[state->current] = number;
    }
    state->thread_of[number] = state->current;
    state->begin[state->current + 1]++;
}

static void on_order(void *context, uint32_t number) {
    struct firefox *state = context;
    state->order[state->begin[state->thread_of[number]]++] = number;
}

static void sort_by_thread(struct firefox *state) {
    state->thread_count = 1;
    draw_tree_walk(state->tree, on_assign, NULL, state);
    for (uint32_t i = 0; i < state->thread_count; i++)
        state->begin[i + 1] += state->begin[i];
    draw_tree_walk(state->tree, on_order, NULL, state);
    /* Each begin has moved to its end, which is the next one's begin. */
    memmove(state->begin + 1, state->begin, state->thread_count * sizeof *state->begin);
    state->begin[0] = 0;
}

/* ---- The tables of a thread ---- */

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
    PUT_CONSTANTS(state, count, "null", "fileName", "lineNumber", "columnNumber");
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

static void put_samples(const struct firefox *state) {
    struct sonde_buf stacks = {0}, times = {0}, weights = {0};
    double now = 0;
    uint32_t count = 0;
    for (uint32_t i = state->begin[state->current]; i < state->begin[state->current + 1]; i++) {
        uint32_t row = state->row[state->order[i]];
        int64_t self = draw_tree_node(state->tree, state->order[i])->self;
        const char *comma = count ? "," : "";
        if (self <= 0)
            continue;
        count++;
        sonde_buf_printf(&stacks, row == NOTHING ? "%snull" : "%s%u", comma, row);
        sonde_buf_printf(&times, "%s%.6f", comma, now);
        if (state->to_ms > 0)
            sonde_buf_printf(&weights, "%s%.6f", comma, (double)self * state->to_ms);
        else
            sonde_buf_printf(&weights, "%s%lld", comma, (long long)self);
        now += state->to_ms > 0 ? (double)self * state->to_ms : 1;
    }
    sonde_buf_printf(state->out,
                     ",\n\"samples\":{\"length\":%u,\"weightType\":\"%s\",\"stack\":[%s],"
                     "\n\"time\":[%s],\n\"weight\":[%s]}",
                     count, state->weight_type, stacks.data ? stacks.data : "",
                     times.data ? times.data : "", weights.data ? weights.data : "");
    state->out->failed |= stacks.failed || times.failed || weights.failed;
    sonde_buf_finish(&stacks);
    sonde_buf_finish(&times);
    sonde_buf_finish(&weights);
}

/* ---- Threads ---- */

/* Numbers the stacks, functions, strings and modules of the current thread. */
static sonde_err number_items(struct firefox *state) {
    state->function_count = state->stack_count = 0;
    for (uint32_t i = state->begin[state->current]; i < state->begin[state->current + 1]; i++) {
        uint32_t number = state->order[i], frame = draw_tree_node(state->tree, number)->frame;
        state->row[number] = NOTHING;
        if (number == DRAW_TREE_ROOT || is_thread(state, number))
            continue;
        state->row[number] = state->stack_count++;
        if (state->function_of[frame] != NOTHING)
            continue;
        state->function_of[frame] = state->function_count;
        state->functions[state->function_count++] = frame;
        const struct draw_frame *item = draw_tree_frame(state->tree, frame);
        uint32_t lib = firefox_texts_find(&state->libs, item->module);
        if (firefox_texts_add(&state->strings, item->name, 0) == PROFILE_TABLE_NONE)
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

static sonde_err put_thread(struct firefox *state, const char *name, uint32_t index) {
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

/* The main thread has the first bytes of the executable's name, unless the program changed it. */
static void choose_main_thread(struct firefox *state) {
    const char *program = draw_program(state->profile);
    state->main_thread = state->thread_count > 1 ? 1 : NO_THREAD;
    for (uint32_t i = 1; i < state->thread_count; i++) {
        const char *name = draw_tree_name(state->tree, state->thread_nodes[i]);
        if (name[0] && strncmp(name, program, COMM) == 0)
            state->main_thread = i;
    }
}

static sonde_err put_threads(struct firefox *state) {
    const struct draw_node *root = draw_tree_node(state->tree, DRAW_TREE_ROOT);
    uint32_t index = 0;
    sonde_err err = SONDE_OK;
    sonde_buf_puts(state->out, ",\n\"threads\":[");
    for (state->current = 0; state->current < state->thread_count && !err; state->current++) {
        bool is_root = state->current == NO_THREAD;
        uint32_t nodes = state->begin[state->current + 1] - state->begin[state->current];
        if (is_root && nodes == 1 && root->self <= 0 && state->thread_count > 1)
            continue;
        const char *name =
            is_root ? "all" : draw_tree_name(state->tree, state->thread_nodes[state->current]);
        err = put_thread(state, name, index++);
    }
    sonde_buf_puts(state->out, "]");
    return err;
}

/* ---- The document ---- */

static void put_extra(const struct firefox *state) {
    struct sonde_buf *out = state->out;
    const char *entry = "{\"format\":\"string\",\"label\":\"%s\",\"value\":";
    sonde_buf_puts(out, ",\n\"extra\":[{\"label\":\"Sonde\",\"entries\":[");
    sonde_buf_printf(out, entry, "Times");
    draw_json(out,
              "The profile does not have the times of its samples. Each thread's stacks follow "
              "each other, each for as long as it was sampled altogether.");
    sonde_buf_putc(out, '}');
    for (size_t i = 0; i < sonde_profile_comment_count(state->profile); i++) {
        sonde_buf_putc(out, ',');
        sonde_buf_printf(out, entry, "Comment");
        draw_json(out, sonde_profile_comment(state->profile, i));
        sonde_buf_putc(out, '}');
    }
    sonde_buf_puts(out, "]}]");
}

static void put_meta(const struct firefox *state) {
    const struct sonde_profile_info *info = sonde_profile_info(state->profile);
    bool is_timed = info->period > 0 && strcmp(info->period_type.unit, "nanoseconds") == 0;
    struct sonde_buf *out = state->out;
    sonde_buf_puts(out, "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":49,\"product\":");
    draw_json(out, state->process);
    sonde_buf_printf(out, ",\"interval\":%.6f,\"startTime\":%.6f",
                     is_timed ? (double)info->period / 1e6 : 1, (double)info->time_unix_ns / 1e6);
    sonde_buf_puts(out, ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,"
                        "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,"
                        "\"sourceCodeIsNotOnSearchfox\":true,\"pausedRanges\":[],"
                        "\"markerSchema\":[],\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],"
                        "\"name\":[]},\n\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\","
                        "\"threadCPUDelta\":\"ns\"},\n");
    sonde_buf_puts(out, meta_categories);
    put_extra(state);
    sonde_buf_puts(out, "},\n");
}

static sonde_err put_document(struct firefox *state) {
    firefox_texts_init(&state->libs);
    sonde_err err = firefox_libs_fill(&state->libs, state->profile);
    if (!err) {
        sort_by_thread(state);
        choose_main_thread(state);
        put_meta(state);
        firefox_libs_put(&state->libs, state->profile, state->out);
        sonde_buf_puts(state->out, ",\n\"pages\":[],\"counters\":[],\"profilerOverhead\":[]");
        err = put_threads(state);
        sonde_buf_puts(state->out, "}\n");
    }
    firefox_texts_finish(&state->libs);
    return err;
}

static void choose_weight(struct firefox *state, const char *unit) {
    static const struct {
        const char *unit;
        double to_ms;
    } times[] = {
        {"nanoseconds", 1e-6}, {"microseconds", 1e-3}, {"milliseconds", 1}, {"seconds", 1e3}};
    state->weight_type = strcmp(unit, "bytes") == 0 ? "bytes" : "samples";
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (strcmp(unit, times[i].unit) != 0)
            continue;
        state->weight_type = "tracing-ms";
        state->to_ms = times[i].to_ms;
    }
}

static sonde_err put_tree(struct firefox *state) {
    uint32_t nodes = state->tree->nodes.count, frames = state->tree->frames.count;
    uint32_t **arrays[] = {&state->thread_of, &state->order, &state->thread_nodes,
                           &state->row,       &state->begin, &state->function_of,
                           &state->functions};
    uint32_t size = (nodes > frames ? nodes : frames) + 2;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc(size, sizeof **arrays[i])))
            err = SONDE_OUT_OF_MEMORY;
    if (!err) {
        memset(state->function_of, 0xff, size * sizeof *state->function_of);
        err = put_document(state);
    }
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(*arrays[i]);
    return err;
}

sonde_err draw_firefox(const struct sonde_profile *profile,
                       const struct sonde_draw_options *options, struct sonde_buf *out,
                       struct sonde_diag *diag) {
    size_t index = draw_time_type(profile, options);
    struct draw_tree_options tree_options = {.type_index = index,
                                             .base_index = index,
                                             .merge_threads = options->merge_threads,
                                             .no_negatives = true};
    const char *name = draw_name(profile, options);
    struct firefox state = {.profile = profile, .out = out};
    struct draw_tree *tree;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (err)
        return err;
    state.tree = tree;
    state.process = name[0] ? name : "Sonde";
    choose_weight(&state, sonde_profile_type(profile, index).unit);
    err = put_tree(&state);
    draw_tree_destroy(tree);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}
