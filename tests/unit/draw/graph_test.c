/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/svg/graph.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdlib.h>

struct drawn {
    struct draw_tree *tree;
    struct draw_graph graph;
};

static struct drawn *graph_of(const char *name, double minimum) {
    struct sonde_profile *profile = fixture(name);
    struct drawn *drawn = calloc(1, sizeof *drawn);
    CHECK_INT(draw_tree_build(profile, &(struct draw_tree_options){.merge_threads = true},
                              &drawn->tree, NULL),
              ==, SONDE_OK);
    CHECK_INT(draw_tree_sum(drawn->tree), ==, SONDE_OK);
    CHECK_INT(draw_graph_build(drawn->tree, minimum, &drawn->graph), ==, SONDE_OK);
    for (uint32_t i = 0; i < drawn->graph.node_count; i++) {
        drawn->graph.nodes[i].width = 40 + i % 7 * 20;
        drawn->graph.nodes[i].height = 20 + i % 3 * 10;
    }
    CHECK_INT(draw_graph_layout(&drawn->graph), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return drawn;
}

static void end(struct drawn *drawn) {
    draw_graph_finish(&drawn->graph);
    draw_tree_destroy(drawn->tree);
    free(drawn);
}

static const struct draw_graph_node *node(const struct drawn *drawn, const char *name) {
    for (uint32_t i = 0; i < drawn->graph.node_count; i++)
        if (strcmp(draw_tree_frame(drawn->tree, drawn->graph.nodes[i].frame)->name, name) == 0)
            return &drawn->graph.nodes[i];
    return NULL;
}

static const struct draw_graph_edge *edge(const struct drawn *drawn, const char *from,
                                          const char *to) {
    const struct draw_graph_node *a = node(drawn, from), *b = node(drawn, to);
    for (uint32_t i = 0; a && b && i < drawn->graph.edge_count; i++)
        if (&drawn->graph.nodes[drawn->graph.edges[i].from] == a &&
            &drawn->graph.nodes[drawn->graph.edges[i].to] == b)
            return &drawn->graph.edges[i];
    return NULL;
}

TEST(graph_counts_an_edge_once_per_stack_despite_recursion) {
    struct drawn *drawn = graph_of("server", 0);
    CHECK_INT(edge(drawn, "run_command", "get_key")->weight, ==, 523);
    CHECK_INT(edge(drawn, "get_key", "run_command")->weight, ==, 3);
    CHECK_INT(edge(drawn, "get_key", "copy_bytes")->weight, ==, 400);
    CHECK(!edge(drawn, "get_key", "copy_bytes")->indirect);
    end(drawn);
}

TEST(graph_bridges_omitted_functions_by_indirect_edges) {
    struct drawn *drawn = graph_of("server", 0.46);
    CHECK(node(drawn, "do_syscall_64") == NULL);
    CHECK_INT(drawn->graph.left_out, >, 3);
    CHECK_INT(edge(drawn, "read_query", "parse_header")->weight, ==, 583);
    end(drawn);
    drawn = graph_of("server", 0.255);
    CHECK(node(drawn, "tcp_sendmsg") == NULL);
    CHECK(node(drawn, "do_syscall_64") != NULL);
    end(drawn);
}

TEST(graph_layout_puts_callees_below_callers_except_for_cycles) {
    struct drawn *drawn = graph_of("server", 0);
    CHECK(node(drawn, "main")->y < node(drawn, "event_loop")->y);
    CHECK(node(drawn, "event_loop")->y < node(drawn, "process_events")->y);
    CHECK(node(drawn, "run_command")->y < node(drawn, "get_key")->y);
    CHECK(node(drawn, "get_key")->y < node(drawn, "copy_bytes")->y);
    end(drawn);
}

TEST(graph_layout_has_no_overlaps_and_nothing_out_of_view) {
    struct drawn *drawn = graph_of("large", 0.005);
    const struct draw_graph *graph = &drawn->graph;
    CHECK_INT(graph->node_count, ==, DRAW_GRAPH_NODES);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct draw_graph_node *a = &graph->nodes[i];
        CHECK(a->x - a->width / 2 >= 0 && a->x + a->width / 2 <= graph->width);
        CHECK(a->y - a->height / 2 >= 0 && a->y + a->height / 2 <= graph->height);
        for (uint32_t j = i + 1; j < graph->node_count; j++) {
            const struct draw_graph_node *b = &graph->nodes[j];
            double apart_x = a->x > b->x ? a->x - b->x : b->x - a->x;
            double apart_y = a->y > b->y ? a->y - b->y : b->y - a->y;
            CHECK(apart_x >= (a->width + b->width) / 2 || apart_y >= (a->height + b->height) / 2);
        }
    }
    end(drawn);
}

TEST(graph_edges_lead_from_caller_to_callee) {
    struct drawn *drawn = graph_of("large", 0.005);
    for (uint32_t i = 0; i < drawn->graph.edge_count; i++) {
        const struct draw_graph_edge *at = &drawn->graph.edges[i];
        const struct draw_graph_node *from = &drawn->graph.nodes[at->from];
        const struct draw_graph_node *to = &drawn->graph.nodes[at->to];
        if (from == to)
            continue;
        CHECK_INT(at->point_count, >=, 2);
        CHECK_NEAR(at->points[0], from->x, from->width / 2);
        CHECK_NEAR(at->points[1], from->y, from->height / 2 + 0.01);
        CHECK_NEAR(at->points[2 * at->point_count - 2], to->x, to->width / 2);
        CHECK_NEAR(at->points[2 * at->point_count - 1], to->y, to->height / 2 + 0.01);
    }
    end(drawn);
}

TEST(graph_of_nothing_is_empty) {
    struct drawn *drawn = graph_of("empty", 0.005);
    CHECK_INT(drawn->graph.node_count, ==, 0);
    CHECK_INT(drawn->graph.edge_count, ==, 0);
    end(drawn);
}
