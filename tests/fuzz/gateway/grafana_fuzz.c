/* SPDX-License-Identifier: Apache-2.0
 *
 * The first byte chooses: a JSON body, a selector, or a tree as the service sends it. */
#include "gateway/families/grafana/call_tree.h"
#include "gateway/families/grafana/grafana_select.h"
#include "gateway/request/json_message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void play_json(const uint8_t *data, size_t size) {
    struct sonde_diag diag = {0};
    ProtobufCMessage *message = NULL;
    sonde_err err = json_message_read((struct sonde_slice){(const char *)data, size},
                                      &querier__v1__diff_request__descriptor, &message, &diag);
    if (!err != (message != NULL) || (err && !diag.text[0]))
        __builtin_trap();
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

/* A translated selector keeps its length. */
static void play_selector(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    sonde_err err = grafana_read_matchers(&text, 1, &arena, &selection, &diag);
    if (err ? !diag.text[0] : !selection.selector)
        __builtin_trap();
    sonde_arena_finish(&arena);
    size_t len = strlen(text);
    grafana_translate_selector(text);
    if (strlen(text) != len)
        __builtin_trap();
    free(text);
}

/* The levels have one group for each node. */
static void play_tree(const uint8_t *data, size_t size, bool has_base) {
    struct call_tree tree = {0};
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    Querier__V1__FlameGraphDiff graph;
    Sonde__V1__Tree *message = sonde__v1__tree__unpack(NULL, size, data);
    size_t values = 0;
    if (!message)
        return;
    sonde_err err = call_tree_add(&tree, message, &diag);
    if (!err)
        err = call_tree_flamegraph(&tree, has_base, &arena, &graph, &diag);
    for (size_t i = 0; !err && i < graph.n_levels; i++)
        values += graph.levels[i]->n_values;
    if (err ? !diag.text[0] : values != tree.count * (has_base ? 7 : 4))
        __builtin_trap();
    call_tree_finish(&tree);
    sonde_arena_finish(&arena);
    sonde__v1__tree__free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    if (data[0] % 4 == 0)
        play_json(data + 1, size - 1);
    else if (data[0] % 4 == 1)
        play_selector(data + 1, size - 1);
    else
        play_tree(data + 1, size - 1, data[0] % 4 == 2);
    return 0;
}
