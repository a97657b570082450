/* SPDX-License-Identifier: Apache-2.0
 *
 * Chrome's heap snapshot. A native process has no types and references to show, but DevTools and
 * memlab can still group objects, sum sizes and show allocation stacks.
 *
 *     node 0          a synthetic root, whose name describes the snapshot
 *     nodes 1..S      one synthetic node per site, the function that called the allocator
 *     other nodes     native nodes: the sampled objects, grouped by site
 *     edges           root → sites, site → its objects
 *     trace_tree      the whole call tree; trace_node_id of a node says where it was allocated
 *
 * The size of an object is the amount of memory that its sample stands for, so sizes add up to the
 * estimate. strings: "", the root's name, the frames' names, the modules.
 *
 * A million objects are 70 MB of text, so rows are formatted by hand and passed to a sink. */
#include "api/draw/render.h"
#include "api/draw/tree.h"
#include "api/profile/heap/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OBJECTS  (1u << 20)
#define MAX_SIZE     (1ll << 30) /* of a node; readers use 32 bits */
#define NODE_FIELDS  7
#define FIRST_STRING 2 /* index of the first frame's name */
#define NATIVE       8 /* node types, indexes in META */
#define SYNTHETIC    9
#define ELEMENT      1 /* edge types, indexes in META */
#define PROPERTY     2
#define PART_BYTES   ((size_t)256 << 10) /* passed to the sink at once */
#define ROW_BYTES    160                 /* enough for a row of numbers */

#define META                                                                                      \
    "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\","           \
    "\"edge_count\",\"trace_node_id\",\"detachedness\"],\n\"node_types\":[[\"hidden\",\"array\"," \
    "\"string\",\"object\",\"code\",\"closure\",\"regexp\",\"number\",\"native\",\"synthetic\","  \
    "\"concatenated string\",\"sliced string\",\"symbol\",\"bigint\"],\"string\",\"number\","     \
    "\"number\",\"number\",\"number\",\"number\"],\n\"edge_fields\":[\"type\",\"name_or_index\"," \
    "\"to_node\"],\n\"edge_types\":[[\"context\",\"element\",\"property\",\"internal\","          \
    "\"hidden\",\"shortcut\",\"weak\"],\"string_or_number\",\"node\"],\n"                         \
    "\"trace_function_info_fields\":[\"function_id\",\"name\",\"script_name\",\"script_id\","     \
    "\"line\",\"column\"],\n\"trace_node_fields\":[\"id\",\"function_info_index\",\"count\","     \
    "\"size\",\"children\"],\n\"sample_fields\":[\"timestamp_us\",\"last_assigned_id\"],\n"       \
    "\"location_fields\":[\"object_index\",\"script_id\",\"line\",\"column\"]},\n"

/* A node of the call tree that allocated something. */
struct leaf {
    uint32_t node, frame;
    uint32_t objects; /* sampled objects */
};

struct site {
    uint32_t frame, objects, first_object; /* first_object is a node number */
};

struct snapshot {
    struct draw_tree *tree;
    struct sonde_buf *out;
    struct leaf *leaves; /* sorted by frame */
    struct site *sites;
    uint32_t *objects_of; /* by tree node: its sampled objects */
    uint32_t leaf_count, site_count, object_count;
    struct profile_table modules; /* const char *, borrowed from the tree */
    bool all_one;
    const struct sonde_draw_sink *sink; /* may be NULL */
};

/* ---- Rows ---- */

static void spill(const struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    if (!snapshot->sink || out->len < PART_BYTES || out->failed)
        return;
    out->failed = !snapshot->sink->write(snapshot->sink->context, out->data, out->len);
    out->len = 0;
}

static char *put_number(char *at, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* Appends `before` and then the numbers, separated by commas. */
static void put_row(const struct snapshot *snapshot, const char *before, const uint64_t *numbers,
                    size_t count) {
    char row[ROW_BYTES];
    size_t len = strlen(before);
    memcpy(row, before, len);
    char *at = row + len;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            *at++ = ',';
        at = put_number(at, numbers[i]);
    }
    sonde_buf_append(snapshot->out, row, (size_t)(at - row));
    spill(snapshot);
}

#define PUT_ROW(snapshot, before, ...)                         \
    put_row(snapshot, before, (const uint64_t[]){__VA_ARGS__}, \
            sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* ---- Sites and objects ---- */

static int by_frame(const void *a, const void *b) {
    const struct leaf *x = a, *y = b;
    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->node < y->node ? -1 : 1;
}

/* The number of sampled objects of a node. */
static double objects_of(const struct draw_node *node) {
    double least = ceil((double)node->self / (double)MAX_SIZE), objects = round(node->sampled);
    objects = objects < least ? least : objects;
    return objects < 1 ? 1 : objects;
}

static sonde_err find_leaves(struct snapshot *snapshot) {
    struct draw_tree *tree = snapshot->tree;
    double sum = 0;
    snapshot->leaves = calloc(tree->nodes.count, sizeof *snapshot->leaves);
    snapshot->objects_of = calloc(tree->nodes.count, sizeof *snapshot->objects_of);
    if (!snapshot->leaves || !snapshot->objects_of)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tree->nodes.count; i++)
        if (draw_tree_node(tree, i)->self > 0)
            sum += objects_of(draw_tree_node(tree, i));
    double share = sum > MAX_OBJECTS ? MAX_OBJECTS / sum : 1;
    for (uint32_t i = 0; i < tree->nodes.count; i++) {
        const struct draw_node *node = draw_tree_node(tree, i);
        if (node->self <= 0)
            continue;
        double objects = objects_of(node) * share;
        struct leaf leaf = {i, node->frame, objects < 1 ? 1 : (uint32_t)objects};
        snapshot->leaves[snapshot->leaf_count++] = leaf;
        snapshot->objects_of[i] = leaf.objects;
        snapshot->object_count += leaf.objects;
    }
    return SONDE_OK;
}

static sonde_err find_sites(struct snapshot *snapshot) {
    struct site *site = calloc(snapshot->leaf_count + 1, sizeof *site);
    snapshot->sites = site;
    if (!site)
        return SONDE_OUT_OF_MEMORY;
    qsort(snapshot->leaves, snapshot->leaf_count, sizeof *snapshot->leaves, by_frame);
    for (uint32_t i = 0; i < snapshot->leaf_count; i++) {
        const struct leaf *leaf = &snapshot->leaves[i];
        if (i == 0 || snapshot->leaves[i - 1].frame != leaf->frame) {
            site = &snapshot->sites[snapshot->site_count++];
            site->frame = leaf->frame;
        }
        site->objects += leaf->objects;
    }
    uint32_t node = 1 + snapshot->site_count;
    for (uint32_t i = 0; i < snapshot->site_count; i++) {
        snapshot->sites[i].first_object = node;
        node += snapshot->sites[i].objects;
    }
    return SONDE_OK;
}

static bool equal_module(const void *context, const void *item, const void *key) {
    return strcmp(*(const char *const *)item, key) == 0;
}

/* Stores the index of the module's name in strings. */
static sonde_err module_string(struct snapshot *snapshot, const char *module, uint32_t *string) {
    uint32_t hash = hash_index_data(&snapshot->modules.index, module, strlen(module));
    uint32_t number = profile_table_find(&snapshot->modules, hash, equal_module, NULL, module);
    if (number == PROFILE_TABLE_NONE) {
        const char **item = profile_table_add(&snapshot->modules, hash);
        if (!item)
            return SONDE_OUT_OF_MEMORY;
        *item = module;
        number = snapshot->modules.count - 1;
    }
    *string = module[0] ? FIRST_STRING + snapshot->tree->frames.count + number : 0;
    return SONDE_OK;
}

static uint32_t node_count(const struct snapshot *snapshot) {
    return 1 + snapshot->site_count + snapshot->object_count;
}

/* Ids are odd, as in V8, and depend only on the position. */
static unsigned long long node_id(uint32_t node) {
    return 2ull * node + 1;
}

static void put_leaf_nodes(const struct snapshot *snapshot, const struct leaf *leaf,
                           uint32_t *node) {
    int64_t size = draw_tree_node(snapshot->tree, leaf->node)->self / leaf->objects;
    int64_t rest = draw_tree_node(snapshot->tree, leaf->node)->self % leaf->objects;
    for (uint32_t i = 0; i < leaf->objects && !snapshot->out->failed; i++, ++*node)
        PUT_ROW(snapshot, ",\n", NATIVE, FIRST_STRING + leaf->frame, node_id(*node),
                snapshot->all_one ? 1 : (uint64_t)(size + (i < rest)), 0, leaf->node + 1, 0);
}

static void put_nodes(const struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    uint32_t node = 1;
    sonde_buf_printf(out, "\"nodes\":[%d,1,%llu,0,%u,0,0", SYNTHETIC, node_id(0),
                     snapshot->site_count);
    for (uint32_t i = 0; i < snapshot->site_count; i++, node++)
        PUT_ROW(snapshot, ",\n", SYNTHETIC, FIRST_STRING + snapshot->sites[i].frame, node_id(node),
                0, snapshot->sites[i].objects, 0, 0);
    for (uint32_t i = 0; i < snapshot->leaf_count; i++)
        put_leaf_nodes(snapshot, &snapshot->leaves[i], &node);
    sonde_buf_puts(out, "],\n");
}

static void put_edges(const struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    sonde_buf_puts(out, "\"edges\":[");
    for (uint32_t i = 0; i < snapshot->site_count; i++)
        PUT_ROW(snapshot, i ? ",\n" : "", PROPERTY, FIRST_STRING + snapshot->sites[i].frame,
                (i + 1) * NODE_FIELDS);
    for (uint32_t i = 0; i < snapshot->site_count; i++)
        for (uint32_t k = 0; k < snapshot->sites[i].objects && !out->failed; k++)
            PUT_ROW(snapshot, ",\n", ELEMENT, k,
                    (snapshot->sites[i].first_object + k) * NODE_FIELDS);
    sonde_buf_puts(out, "],\n");
}

static sonde_err put_functions(struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    sonde_err err = SONDE_OK;
    sonde_buf_puts(out, "\"trace_function_infos\":[");
    for (uint32_t i = 0; i < snapshot->tree->frames.count && !err; i++) {
        uint32_t module = 0;
        err = module_string(snapshot, draw_tree_frame(snapshot->tree, i)->module, &module);
        PUT_ROW(snapshot, i ? ",\n" : "", i, FIRST_STRING + i, module, 0, 0, 0);
    }
    sonde_buf_puts(out, "],\n");
    return err;
}

static void on_enter(void *context, uint32_t number) {
    const struct snapshot *snapshot = context;
    const struct draw_node *node = draw_tree_node(snapshot->tree, number);
    uint32_t objects = snapshot->objects_of[number];
    bool is_next = number && draw_tree_node(snapshot->tree, node->parent)->first_child != number;
    int64_t size = snapshot->all_one ? objects : node->self;
    PUT_ROW(snapshot, is_next ? ",\n" : "", number + 1, node->frame, objects,
            size > 0 ? (uint64_t)size : 0);
    sonde_buf_puts(snapshot->out, ",[");
}

static void on_leave(void *context, uint32_t number) {
    const struct snapshot *snapshot = context;
    sonde_buf_putc(snapshot->out, ']');
}

static void put_root_name(const struct snapshot *snapshot) {
    struct sonde_buf name = {0};
    if (snapshot->object_count == 0) {
        sonde_buf_puts(&name, "(Sonde: no samples)");
    } else {
        sonde_buf_puts(&name, "(Sonde: ");
        draw_grouped(&name, snapshot->object_count);
        sonde_buf_puts(&name, snapshot->all_one ? " sampled objects, each with the size 1."
                                                : " sampled objects, each with the size of the "
                                                  "memory that it represents.");
        sonde_buf_puts(&name, " Native memory has no references; an edge leads from a function "
                              "to an object that it allocated)");
    }
    snapshot->out->failed |= name.failed;
    draw_json(snapshot->out, sonde_buf_slice(&name).data);
    sonde_buf_finish(&name);
}

static void put_strings(const struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    sonde_buf_puts(out, "\"strings\":[\"\",\n");
    put_root_name(snapshot);
    for (uint32_t i = 0; i < snapshot->tree->frames.count; i++) {
        sonde_buf_puts(out, ",\n");
        draw_json(out, draw_tree_frame(snapshot->tree, i)->name);
        spill(snapshot);
    }
    for (uint32_t i = 0; i < snapshot->modules.count; i++) {
        sonde_buf_puts(out, ",\n");
        draw_json(out, *(const char **)profile_table_item(&snapshot->modules, i));
    }
    sonde_buf_puts(out, "]}\n");
}

static sonde_err put_document(struct snapshot *snapshot) {
    struct sonde_buf *out = snapshot->out;
    sonde_buf_puts(out, META);
    sonde_buf_printf(out, "\"node_count\":%u,\"edge_count\":%u,\"trace_function_count\":%u},\n",
                     node_count(snapshot), node_count(snapshot) - 1, snapshot->tree->frames.count);
    put_nodes(snapshot);
    put_edges(snapshot);
    sonde_err err = put_functions(snapshot);
    if (err)
        return err;
    sonde_buf_puts(out, "\"trace_tree\":[");
    draw_tree_walk(snapshot->tree, on_enter, on_leave, snapshot);
    sonde_buf_printf(out, "],\n\"samples\":[0,%llu],\n\"locations\":[],\n",
                     node_id(node_count(snapshot) - 1));
    put_strings(snapshot);
    return SONDE_OK;
}

sonde_err draw_heapsnapshot(const struct sonde_profile *profile,
                            const struct sonde_draw_options *options, struct sonde_buf *out,
                            struct sonde_diag *diag) {
    struct sonde_memory_pair pair;
    struct snapshot snapshot = {.out = out, .all_one = options->all_one, .sink = options->sink};
    if (!sonde_memory_pair(profile, options->type_index, &pair))
        return sonde_fail(diag, SONDE_INTERNAL, "not a memory profile");
    struct draw_tree_options tree_options = {.type_index = pair.space,
                                             .base_index = pair.space,
                                             .merge_threads = !options->split_threads,
                                             .no_negatives = true,
                                             .memory = &pair};
    sonde_err err = draw_tree_build(profile, &tree_options, &snapshot.tree, diag);
    if (err)
        return err;
    profile_table_init(&snapshot.modules, sizeof(const char *));
    err = find_leaves(&snapshot);
    if (!err)
        err = find_sites(&snapshot);
    if (!err)
        err = put_document(&snapshot);
    profile_table_finish(&snapshot.modules);
    free(snapshot.leaves);
    free(snapshot.sites);
    free(snapshot.objects_of);
    draw_tree_destroy(snapshot.tree);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}
