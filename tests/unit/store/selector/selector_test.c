/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"

#include <stdbool.h>
#include <string.h>

/* The labels of one window. */
static const char *const labels[][2] = {
    {"pod_ns", "app"},
    {"version", "2"},
    {"host", "db-1"},
    {"k8s.label.app", "x"},
    {"name", "it's"},
    {"path", "C:\\bin"},
    {"percent", "100%"},
    {"city", "M\xc3\xbcnchen"},
    {"broken", "a\xff"
               "b"},
    {"number", "-007"},
    {"text", "foo.bar"},
    {"lines", "one\n"},
    {"app/kind", "backend"},
};

static const char *label(void *context, const char *name) {
    const char *value = "";
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++)
        if (strcmp(labels[i][0], name) == 0)
            value = labels[i][1];
    return value;
}

static bool fits(const char *text) {
    struct selector *selector;
    struct sonde_diag diag = {0};
    if (selector_parse(text, NULL, NULL, &selector, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, diag.text);
    bool result = selector_matches(selector, label, NULL);
    selector_destroy(selector);
    return result;
}

static void check_fits(const char *const *texts, size_t count, bool expected) {
    for (size_t i = 0; i < count; i++)
        if (fits(texts[i]) != expected)
            check_fail(__FILE__, __LINE__, "%s should%s match", texts[i], expected ? "" : " not");
}
#define CHECK_FITS(texts, expected) check_fits(texts, sizeof(texts) / sizeof((texts)[0]), expected)

TEST(empty_selectors_match_everything) {
    static const char *const texts[] = {"", " \t\r\n", "{}", " { } "};
    CHECK_FITS(texts, true);
    CHECK(selector_matches(NULL, label, NULL));
    CHECK(selector_root(NULL) == NULL);
}

TEST(each_operator_matches_what_it_says) {
    static const char *const yes[] = {
        "pod_ns = 'app'",        "pod_ns=\"app\"",
        "pod_ns != 'x'",         "pod_ns <> 'x'",
        "version < 10", /* numbers, not texts */
        "version <= 2",          "version > '1'",
        "version >= 2",          "pod_ns > 'aa'",
        "version IN ('1', '2')", "version IN (1,2)",
        "version not in ('1')",  "host LIKE 'db-%'",
        "host NOT LIKE 'web%'",  "host REGEXP '^db-[0-9]+$'",
        "host REGEXP 'b-'", /* not anchored */
        "host NOT REGEXP 'web'", "number = '-007'",
        "number < -6",           "number >= '-7'",
        "missing = ''",          "missing != 'x'",
    };
    static const char *const no[] = {
        "pod_ns = 'App'",    "pod_ns != 'app'",    "version > 10",    "version < 2",
        "version IN ('3')",  "version NOT IN (2)", "host LIKE 'b-1'", "host REGEXP '^b'",
        "host NOT LIKE '%'", "missing = 'x'",      "number = '-7'",   "number > -7",
        "pod_ns < '1'",
    };
    CHECK_FITS(yes, true);
    CHECK_FITS(no, false);
}

TEST(and_binds_closer_than_or_and_not_closer_than_both) {
    static const char *const yes[] = {
        "pod_ns='app' OR pod_ns='x' AND version='9'",
        "NOT pod_ns='x' AND version='2'",
        "not (pod_ns='x' or version='9') and NOT NOT host='db-1'",
        "pod_ns = 'app' AND (version IN ('1', '2') OR NOT host LIKE 'db-%')",
    };
    static const char *const no[] = {
        "(pod_ns='app' OR pod_ns='x') AND version='9'",
        "NOT (pod_ns='x' OR version='2')",
    };
    CHECK_FITS(yes, true);
    CHECK_FITS(no, false);
}

TEST(like_knows_percent_underscore_and_backslash) {
    static const char *const yes[] = {
        "percent LIKE '100\\%'", "percent LIKE '%\\%'",       "city LIKE 'M_nchen'",
        "broken LIKE 'a_b'",     "host LIKE '%%1%'",          "host LIKE '____'",
        "missing LIKE '%'",      "path LIKE 'C:\\\\\\\\bin'", "missing LIKE ''",
    };
    static const char *const no[] = {
        "host LIKE 'db-\\%'", "city LIKE 'M__nchen'", "host LIKE '___'", "host LIKE '_____%'",
        "missing LIKE '_'",   "host LIKE 'db-1%x'",   "host LIKE ''",
    };
    CHECK_FITS(yes, true);
    CHECK_FITS(no, false);
}

TEST(quotes_and_names_are_written_in_several_ways) {
    static const char *const yes[] = {
        "name = 'it''s'",          "name = 'it\\'s'",        "name = \"it's\"",
        "path = 'C:\\bin'",        "path = 'C:\\\\bin'",     "k8s.label.app = 'x'",
        "`k8s.label.app`='x'",     "`app/kind` = 'backend'", "{`app/kind`=\"backend\"}",
        "version=2 AND version=2",
    };
    CHECK_FITS(yes, true);
}

TEST(prometheus_regular_expressions_are_anchored) {
    static const char *const yes[] = {
        "{pod_ns=\"app\", version=~\"1|2\"}",
        "{host!~\"b-1\",}",
        "{pod_ns!=\"x\"}",
        "{host=~\"db-.\",host!~\"web.*\"}",
        "{missing=\"\"}",
        "{missing=~\"\"}",
        "{text=~'foo\\.bar'}",
        "{text=~\"foo\\\\.bar\"}",
    };
    static const char *const no[] = {
        "{host=~\"b-1\"}",
        "{host=~\"db|x\"}",
        "{lines=~\"one\"}", /* $ is the end, not the last newline */
        "{pod_ns=\"app\",version!~\"1|2\"}",
    };
    CHECK_FITS(yes, true);
    CHECK_FITS(no, false);
}

TEST(the_tree_has_names_and_values_for_engines) {
    struct selector *selector;
    CHECK_INT(selector_parse("a IN ('x', 2) AND NOT b = 'y'", NULL, NULL, &selector, NULL), ==,
              SONDE_OK);
    const struct selector_node *root = selector_root(selector);
    CHECK_INT(root->kind, ==, SELECTOR_AND);
    CHECK_INT(root->left->kind, ==, SELECTOR_IN);
    CHECK_INT(root->left->value_count, ==, 2);
    CHECK_STR(root->left->values[1], "2");
    CHECK_INT(root->right->kind, ==, SELECTOR_NOT);
    CHECK_STR(root->right->left->name, "b");
    CHECK(selector_names(selector, "a") && selector_names(selector, "b"));
    CHECK(!selector_names(selector, "x") && !selector_names(NULL, "a"));
    selector_destroy(selector);
    CHECK_INT(selector_parse("{a=~\"x|y\"}", NULL, NULL, &selector, NULL), ==, SONDE_OK);
    CHECK_STR(selector_root(selector)->values[0], "^(?:x|y)$");
    selector_destroy(selector);
}

static sonde_err only_pod(void *context, const char **name, struct sonde_diag *diag) {
    ++*(int *)context;
    if (strcmp(*name, "pod") != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unknown name; use pod");
    *name = "k8s_pod";
    return SONDE_OK;
}

TEST(on_name_replaces_and_refuses_names) {
    struct selector *selector;
    struct sonde_diag diag = {0};
    int calls = 0;
    CHECK_INT(selector_parse("pod='a' OR pod='b'", only_pod, &calls, &selector, &diag), ==,
              SONDE_OK);
    CHECK_INT(calls, ==, 2);
    CHECK(selector_names(selector, "k8s_pod") && !selector_names(selector, "pod"));
    selector_destroy(selector);
    CHECK_INT(selector_parse("pod='a' OR  host='b'", only_pod, &calls, &selector, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "byte 12: unknown name; use pod");
    CHECK(selector == NULL);
}
