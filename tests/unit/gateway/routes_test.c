/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the route table with api/rest/openapi.yaml. The file's layout is simple enough to be
 * read line by line: paths are indented by two spaces, methods by four, parameters deeper. */
#include "gateway/routes.h"

#include "gateway/openapi.h"
#include "gateway/request/formats.h"
#include "tests/unit/check.h"

#include <stdio.h>

static const char *find_line(const char *text, const char *line) {
    size_t len = strlen(line);
    for (const char *at = strstr(text, line); at; at = strstr(at + 1, line))
        if ((at == text || at[-1] == '\n') && (at[len] == '\n' || at[len] == 0))
            return at + len;
    return NULL;
}

/* The end of the block that begins at text with an indentation of `indent` spaces. */
static const char *block_end(const char *text, size_t indent) {
    for (const char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n'))
        if (strspn(at + 1, " ") <= indent)
            return at;
    return text + strlen(text);
}

static bool block_has(const char *begin, const char *end, const char *word) {
    const char *found = strstr(begin, word);
    return found && found < end;
}

static size_t count_in_block(const char *begin, const char *end, const char *word) {
    size_t count = 0;
    for (const char *at = strstr(begin, word); at && at < end; at = strstr(at + 1, word))
        count++;
    return count;
}

static void check_parameters(const struct route *route, const char *begin, const char *end) {
    char words[128], reference[128];
    size_t wanted = route->flags & ROUTE_NO_TARGET ? 0 : 2;
    snprintf(words, sizeof words, "%s%s", route->parameters, wanted ? " target pid" : "");
    for (char *rest = words, *word; (word = strsep(&rest, " "));) {
        snprintf(reference, sizeof reference, "parameters/%s'", word);
        if (*word && !block_has(begin, end, reference))
            check_fail(__FILE__, __LINE__, "%s: openapi.yaml lacks %s", route->path, word);
    }
    for (const char *at = route->parameters; *at; at++)
        wanted += *at == ' ';
    wanted += route->parameters[0] != 0;
    if (count_in_block(begin, end, "parameters/") != wanted)
        check_fail(__FILE__, __LINE__, "%s: openapi.yaml has parameters that the table lacks",
                   route->path);
}

static void check_method(const struct route *route, const char *path, const char *path_end,
                         unsigned method, const char *line) {
    const char *found = find_line(path, line);
    bool described = found && found <= path_end;
    if (described != ((route->methods & method) != 0))
        check_fail(__FILE__, __LINE__, "%s: table and openapi.yaml differ in%s", route->path, line);
    if (described)
        check_parameters(route, found, block_end(found, 4));
}

TEST(openapi_describes_every_route) {
    size_t count;
    const struct route *table = route_table(&count);
    const char *text = openapi_text().data;
    for (size_t i = 0; i < count; i++) {
        char line[160];
        snprintf(line, sizeof line, "  %s:", table[i].path);
        const char *path = find_line(text, line);
        if (!path)
            check_fail(__FILE__, __LINE__, "openapi.yaml lacks %s", table[i].path);
        check_method(&table[i], path, block_end(path, 2), METHOD_GET, "    get:");
        check_method(&table[i], path, block_end(path, 2), METHOD_POST, "    post:");
        check_method(&table[i], path, block_end(path, 2), METHOD_PUT, "    put:");
    }
}

TEST(openapi_describes_nothing_else) {
    size_t count, described = 0;
    route_table(&count);
    const char *text = openapi_text().data;
    for (const char *at = strstr(text, "\n  /"); at; at = strstr(at + 1, "\n  /"))
        described++;
    CHECK_INT(described, ==, count);
}

static bool has_outputs(const char *parameter, enum format_family family) {
    struct sonde_buf list = {0};
    sonde_buf_puts(&list, "enum: [");
    format_append_list(&list, family);
    sonde_buf_puts(&list, "]");
    const char *begin = find_line(openapi_text().data, parameter);
    bool has = begin && block_has(begin, block_end(begin, 4), list.data);
    sonde_buf_finish(&list);
    return has;
}

TEST(openapi_lists_the_outputs_of_each_kind_of_path) {
    CHECK(has_outputs("    output:", FORMATS_CPU));
    CHECK(has_outputs("    heap_output:", FORMATS_HEAP));
}

TEST(routes_that_change_state_are_marked) {
    static const char *const switching[] = {
        "/debug/pprof/heap_activate",
        "/debug/pprof/heap_deactivate",
        "/debug/prof/mem/activate",
        "/debug/prof/mem/deactivate",
        "/debug/prof/mem/gdump",
        "/v1/heap",
        "/v1/captures",
        "/profile_start",
        "/profile_stop",
    };
    for (size_t i = 0; i < sizeof switching / sizeof switching[0]; i++)
        CHECK(route_find(sonde_slice_of(switching[i]))->flags & ROUTE_CHANGES_STATE);
}

TEST(every_row_is_complete) {
    size_t count;
    const struct route *table = route_table(&count);
    for (size_t i = 0; i < count; i++) {
        CHECK(table[i].methods && table[i].handle && table[i].summary && table[i].parameters);
        CHECK(route_find(sonde_slice_of(table[i].path)) == &table[i]);
    }
}

TEST(paths_match_exactly) {
    CHECK(!route_find(sonde_slice_of("/debug/pprof/profile/")));
    CHECK(!route_find(sonde_slice_of("/debug/pprof//profile")));
    CHECK(!route_find(sonde_slice_of("/Debug/pprof/profile")));
    CHECK(!route_find(sonde_slice_of("")));
    CHECK(!route_find(sonde_slice_of("*")));
}

TEST(a_saved_capture_is_one_more_segment) {
    const struct route *route = route_find(sonde_slice_of("/v1/captures/7.svg"));
    CHECK_STR(route->path, "/v1/captures/{id}");
    CHECK_STR(route_find(sonde_slice_of("/v1/captures"))->path, "/v1/captures");
    CHECK(!route_find(sonde_slice_of("/v1/captures/")));
    CHECK(!route_find(sonde_slice_of("/v1/captures/7/8")));
    CHECK(!route_find(sonde_slice_of("/v1/captures/7/")));
}

TEST(julias_paths_allow_one_trailing_slash) {
    CHECK(route_find(sonde_slice_of("/profile/")));
    CHECK(!route_find(sonde_slice_of("/profile//")));
}

TEST(unknown_paths_have_the_family_of_their_prefix) {
    CHECK_INT(route_family(sonde_slice_of("/debug/pprof/goroutine")), ==, FAMILY_PPROF);
    CHECK_INT(route_family(sonde_slice_of("/pprof/growth")), ==, FAMILY_PPROF);
    CHECK_INT(route_family(sonde_slice_of("/debug/prof/nothing")), ==, FAMILY_PROF);
    CHECK_INT(route_family(sonde_slice_of("/v1/profile/nothing")), ==, FAMILY_TRACING);
    CHECK_INT(route_family(sonde_slice_of("/v1/nothing")), ==, FAMILY_PLAIN);
    CHECK_INT(route_family(sonde_slice_of("/pprofx")), ==, FAMILY_PLAIN);
}
