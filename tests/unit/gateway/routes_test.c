/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the route table with api/rest/openapi.yaml. The file's layout is simple enough to be
 * read line by line: paths are indented by two spaces, methods by four, parameters deeper. */
#include "gateway/routes.h"

#include "api/profile/event.h"
#include "gateway/openapi.h"
#include "gateway/parameters.h"
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
    char words[256], reference[128];
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

/* The words of the route table are keys of components/parameters in openapi.yaml. */
TEST(parameters_have_the_names_that_openapi_describes) {
    const char *names[PARAMETERS_MAX];
    char storage[PARAMETERS_STORAGE], words[PARAMETERS_STORAGE], line[80];
    size_t count, used;
    const struct route *table = route_table(&count);
    for (size_t i = 0; i < count; i++) {
        size_t listed = parameters_list(&table[i], names, storage), at = 0;
        CHECK_INT(listed, <, PARAMETERS_MAX);
        CHECK_INT(strlen(table[i].parameters) + sizeof " target pid", <, PARAMETERS_STORAGE);
        used = (size_t)snprintf(words, sizeof words, "%s", table[i].parameters);
        CHECK_INT(used, <, sizeof words);
        for (char *rest = words, *word; (word = strsep(&rest, " "));) {
            snprintf(line, sizeof line, "    %s:", word);
            const char *begin = *word ? find_line(openapi_text().data, line) : NULL;
            if (!begin || block_has(begin, block_end(begin, 4), "in: path"))
                continue;
            snprintf(line, sizeof line, "\n      name: %s\n", at < listed ? names[at++] : "");
            if (!block_has(begin, block_end(begin, 4), line))
                check_fail(__FILE__, __LINE__, "%s: %s has another name", table[i].path, word);
        }
    }
}

static sonde_err check_query(const struct route *route, const char *text, struct sonde_diag *diag) {
    struct query query;
    query_parse(&query, sonde_slice_of(text));
    sonde_err err = parameters_check(route, &query, diag);
    query_finish(&query);
    return err;
}

/* The documents' parameters and what Go's tools, scrapers and browsers add to a URL. */
TEST(what_clients_of_other_systems_send_is_not_taken_for_a_typo) {
    static const char *const sent[] = {
        "seconds=1",  "debug=1",    "gc=1",       "rate=1",          "frequency=1",   "interval=1",
        "duration=1", "delay=1",    "n=1",        "sample_rate=1",   "pprof=true",    "jeprof=true",
        "name=x",     "all_one=1",  "output=top", "activate=true",   "timeout=5",     "labels=x",
        "_=17000000", "t=17000000", "v=1",        "utm_source=mail", "collect[]=cpu", "f=1",
    };
    size_t count;
    const struct route *table = route_table(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof sent / sizeof sent[0]; j++) {
            struct sonde_diag diag = {0};
            if (table[i].family != FAMILY_V1 && check_query(&table[i], sent[j], &diag))
                check_fail(__FILE__, __LINE__, "%s?%s: %s", table[i].path, sent[j], diag.text);
        }
}

TEST(a_typo_is_refused_where_a_protocol_does_not_forbid_it) {
    struct sonde_diag diag = {0};
    const struct route *profile = route_find(sonde_slice_of("/debug/pprof/profile"));
    CHECK_INT(check_query(profile, "seconds=1&frequncy=5", &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "unknown parameter \"frequncy\"; did you mean frequency?");
    const struct route *captures = route_find(sonde_slice_of("/v1/captures/7"));
    CHECK_INT(check_query(captures, "from=1&until=2", &diag), ==, SONDE_OK);
    CHECK_INT(check_query(captures, "id=7", &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "unknown parameter \"id\"; this path has from, until, output, threads, "
                         "hide_idle");
    const struct route *render = route_find(sonde_slice_of("/pyroscope/render"));
    CHECK_INT(check_query(render, "max-nodes=5", &diag), ==, SONDE_OK);
}

TEST(an_extension_is_split_from_a_path_that_sends_profiles) {
    struct sonde_slice extension;
    const struct route *route =
        route_find_extended(sonde_slice_of("/debug/pprof/profile.pb.gz"), &extension);
    CHECK_STR(route->path, "/debug/pprof/profile");
    CHECK(sonde_slice_equals(extension, ".pb.gz"));
    CHECK_STR(route_find_extended(sonde_slice_of("/v1/diff.svg"), &extension)->path, "/v1/diff");
    CHECK(!route_find_extended(sonde_slice_of("/debug/pprof/cmdline.svg"), &extension));
    CHECK(!route_find_extended(sonde_slice_of("/v1.svg/diff"), &extension));
    CHECK(!route_find_extended(sonde_slice_of("/v1/captures/7.8/x"), &extension));
    CHECK(!route_find_extended(sonde_slice_of(""), &extension));
}

TEST(openapi_lists_the_outputs_of_each_kind_of_path) {
    CHECK(has_outputs("    output:", FORMATS_CPU));
    CHECK(has_outputs("    difference_output:", FORMATS_DIFFERENCE));
    CHECK(has_outputs("    heap_output:", FORMATS_HEAP));
    CHECK(has_outputs("    render_output:", FORMATS_DRAWN));
}

TEST(openapi_lists_the_recorded_events) {
    struct sonde_buf list = {0};
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded)
            sonde_buf_printf(&list, "%s%s", list.len ? ", " : "enum: [", sonde_events[i].name);
    sonde_buf_puts(&list, "]");
    const char *begin = find_line(openapi_text().data, "    event:");
    CHECK(begin && block_has(begin, block_end(begin, 4), list.data));
    sonde_buf_finish(&list);
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
