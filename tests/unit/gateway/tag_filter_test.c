/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/history/tag_filter.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static char version[] = "version", zone[] = "zone";
static char *const names[] = {version, zone};
static const struct tag_labels none = {NULL, 0}, two = {names, 2};

static void check_labels(const char *filter, const struct tag_labels *labels, const char *wanted) {
    char text[256];
    struct sonde_diag diag = {0};
    snprintf(text, sizeof text, "%s", filter);
    sonde_err err = tag_filter_translate(text, labels, &diag);
    const char *got = err ? diag.text : text;
    if (strlen(text) != strlen(filter) || strcmp(got, wanted) != 0)
        check_fail(__FILE__, __LINE__, "%s: \"%s\"", filter, got);
}

static void check_filter(const char *filter, const char *wanted) {
    check_labels(filter, &none, wanted);
}

TEST(names_become_labels_in_place) {
    check_filter("app_service='a'", "service    ='a'");
    check_filter("chost = host", "host  = host");
    check_filter("`app_instance`='a'", "`instance`    ='a'");
    check_filter("NOT(vtap LIKE 'a%')and pod IN('1',2)", "NOT(host LIKE 'a%')and pod IN('1',2)");
    check_filter("service=''", "none__ =''");
    check_filter("`k8s.label.app`=1 or cloud.tag.x=2", "`k8s.label.app`=1 or cloud.tag.x=2");
    check_filter("", "");
}

TEST(texts_are_not_changed) {
    check_filter("pod='chost'", "pod='chost'");
    check_filter("pod=\"chost\"", "pod=\"chost\"");
    check_filter("pod='it''s chost'", "pod='it''s chost'");
    check_filter("pod='it\\' chost'", "pod='it\\' chost'");
    check_filter("pod='chost", "pod='chost");
    check_filter("pod='\\", "pod='\\");
    check_filter("`chost", "`chost");
}

#define HINT                                                                                  \
    " is neither a tag, such as app_instance, process_id, host, pod or `k8s.label.app`, nor " \
    "a label of history: "

TEST(unknown_names_are_refused_with_their_place) {
    check_filter("pod=1 AND thread=2", "tag_filter: byte 10: \"thread\"" HINT "it has none");
    check_filter("`x y`=1", "tag_filter: byte 1: \"x y\"" HINT "it has none");
    check_filter("k8s.labels=1", "tag_filter: byte 0: \"k8s.labels\"" HINT "it has none");
    check_filter("POD=1", "tag_filter: byte 0: \"POD\"" HINT "it has none");
    check_filter("``=1", "tag_filter: byte 1: \"\"" HINT "it has none");
    check_filter(" {pod=\"a\"}", "tag_filter: byte 1: expected the name of a tag");
}

TEST(labels_of_history_are_names) {
    check_labels("version = '1.5' AND chost = 'a'", &two, "version = '1.5' AND host  = 'a'");
    check_labels("`zone` IN ('b')", &two, "`zone` IN ('b')");
    check_labels("pod=1 OR versions=2", &two,
                 "tag_filter: byte 9: \"versions\"" HINT "version, zone");
}

TEST(labels_that_are_not_known_yet_are_not_found) {
    char filter[] = "version=1", tag[] = "pod=1", braces[] = "{version=1}";
    CHECK_INT(tag_filter_translate(filter, NULL, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(tag_filter_translate(tag, NULL, NULL), ==, SONDE_OK);
    CHECK_INT(tag_filter_translate(braces, NULL, NULL), ==, SONDE_INVALID_ARGUMENT);
}

TEST(an_error_lists_the_labels_that_fit) {
    char long_name[60], *many[] = {version, long_name, long_name, zone};
    const struct tag_labels four = {many, 4};
    struct sonde_diag diag = {0};
    char filter[] = "x=1";
    memset(long_name, 'l', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    CHECK_INT(tag_filter_translate(filter, &four, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "history: version, lll") != NULL);
    CHECK(strstr(diag.text, "l, ...") != NULL && strstr(diag.text, "zone") == NULL);
}
