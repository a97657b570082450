/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/history/tag_filter.h"

#include "tests/unit/check.h"

#include <stdio.h>

static void check_filter(const char *filter, const char *wanted) {
    char text[256];
    struct sonde_diag diag = {0};
    snprintf(text, sizeof text, "%s", filter);
    sonde_err err = tag_filter_translate(text, &diag);
    const char *got = err ? diag.text : text;
    if (strlen(text) != strlen(filter) || strcmp(got, wanted) != 0)
        check_fail(__FILE__, __LINE__, "%s: \"%s\"", filter, got);
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

#define HINT                                                                                 \
    ", such as app_instance, process_id, host, pod or `k8s.label.app`; /v1/history/profile " \
    "selects by any label"

TEST(unknown_names_are_refused_with_their_place) {
    check_filter("pod=1 AND thread=2", "tag_filter: byte 10: \"thread\" is not a tag" HINT);
    check_filter("`x y`=1", "tag_filter: byte 1: \"x y\" is not a tag" HINT);
    check_filter("k8s.labels=1", "tag_filter: byte 0: \"k8s.labels\" is not a tag" HINT);
    check_filter("POD=1", "tag_filter: byte 0: \"POD\" is not a tag" HINT);
    check_filter("``=1", "tag_filter: byte 1: \"\" is not a tag" HINT);
    check_filter(" {pod=\"a\"}", "tag_filter: byte 1: expected the name of a tag");
}
