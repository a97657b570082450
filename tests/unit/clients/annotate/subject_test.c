/* SPDX-License-Identifier: Apache-2.0
 *
 * What a name means in profiles that are made here, with as many functions and mappings as wanted.
 */
#include "clients/annotate/code_request.h"
#include "clients/annotate/subject.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

#define MANY         20000
#define MAX_MAPPINGS 8192
#define PAGE         4096u

static struct sonde_profile *make_profile(void) {
    struct sonde_value_type types[] = {{"samples", "count"}};
    struct sonde_profile *profile = sonde_profile_create(types, 1, 0);
    CHECK(profile);
    return profile;
}

static uint32_t string_of(struct sonde_profile *profile, const char *text) {
    uint32_t id;
    CHECK(!sonde_profile_string(profile, text, strlen(text), &id));
    return id;
}

static uint32_t function_of(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {.name = string_of(profile, name)};
    uint32_t id;
    CHECK(!sonde_profile_add_function(profile, &function, &id));
    return id;
}

/* A sample in `outer`, and in `inlined` inside of it unless that is NULL. */
static void add(struct sonde_profile *profile, uint32_t mapping, uint64_t address,
                const char *inlined, const char *outer) {
    struct sonde_line lines[2];
    uint32_t count = 0, id;
    int64_t value = 1;
    if (inlined)
        lines[count++] = (struct sonde_line){function_of(profile, inlined), 1};
    lines[count++] = (struct sonde_line){function_of(profile, outer), 1};
    struct sonde_location location = {
        .mapping = mapping, .address = address, .line_count = count, .lines = lines};
    CHECK(!sonde_profile_add_location(profile, &location, &id));
    struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = &value};
    CHECK(!sonde_profile_add_sample(profile, &sample));
}

/* handle_0, handle_1 and so on. */
static struct sonde_profile *make_handlers(unsigned count, const char *inlined) {
    struct sonde_profile *profile = make_profile();
    for (unsigned i = 0; i < count; i++) {
        char name[40];
        snprintf(name, sizeof name, "handle_%u", i);
        add(profile, 0, PAGE * (i + 1), inlined, name);
    }
    return profile;
}

struct found {
    struct subject subject;
    struct sonde_buf choices;
    struct sonde_diag diag;
    sonde_err err;
};

static struct found find(const struct sonde_profile *profile, const char *word) {
    static struct subject_name name; /* large */
    struct found found = {.err = SONDE_OK};
    subject_read_name(profile, word, &name);
    found.err = subject_find(profile, 0, &name, &found.subject, &found.choices, &found.diag);
    return found;
}

static void finish(struct found *found) {
    subject_finish(&found->subject);
    sonde_buf_finish(&found->choices);
}

static void check_refused(const struct sonde_profile *profile, const char *word, const char *why,
                          bool has_choices) {
    struct found found = find(profile, word);
    CHECK_INT(found.err, ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(found.diag.text, why));
    CHECK_INT(found.choices.len > 0, ==, has_choices);
    finish(&found);
}

TEST(a_name_that_means_too_many_functions_is_refused_without_a_list) {
    struct sonde_profile *profile = make_handlers(SUBJECT_MAX_GROUPS, NULL);
    check_refused(profile, "handle_*", "means 1024 functions", true);
    add(profile, 0, UINT32_MAX, NULL, "handle_last");
    check_refused(profile, "handle_*", "means more than 1024 functions", false);
    struct found one = find(profile, "handle_l*");
    CHECK(!one.err);
    CHECK_STR(one.subject.name, "handle_last");
    finish(&one);
    sonde_profile_destroy(profile);
}

TEST(a_name_that_consists_only_of_stars_is_refused) {
    static const char *const words[] = {"*", "**", "...", "…", "*...", "*@server"};
    struct sonde_profile *profile = make_handlers(2, NULL);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        check_refused(profile, words[i], "means every function", false);
    sonde_profile_destroy(profile);
}

TEST(a_function_may_be_inlined_into_any_number_of_others) {
    struct sonde_profile *profile = make_handlers(MANY, "mix");
    add(profile, 0, PAGE + 8, "mix", "handle_0");
    struct found found = find(profile, "mix");
    CHECK(!found.err);
    CHECK(found.subject.is_container);
    CHECK_STR(found.subject.name, "handle_0");
    CHECK_INT(found.subject.count, ==, 2);
    CHECK_INT(found.subject.inlined_elsewhere, ==, MANY + 1);
    finish(&found);
    sonde_profile_destroy(profile);
}

/* As in the history, where addresses are offsets, so that each page is a range of its own. */
static void check_pages(unsigned count, sonde_err expected, size_t mappings) {
    struct sonde_profile *profile = make_profile();
    struct sonde_mapping mapping = {.filename = string_of(profile, "server")};
    uint32_t id;
    CHECK(!sonde_profile_add_mapping(profile, &mapping, &id));
    for (unsigned i = 0; i < 2 * count; i++) /* each page twice */
        add(profile, id, PAGE * (uint64_t)(i % count + 1) + i / count, NULL, "huge");
    struct found found = find(profile, "huge");
    CHECK(!found.err);
    const struct subject *subject = &found.subject;
    struct code_request request;
    CHECK_INT(code_request_init(&request, &subject, 1, 0, &found.diag), ==, expected);
    CHECK_INT(request.message.n_mappings, ==, mappings);
    code_request_finish(&request);
    finish(&found);
    sonde_profile_destroy(profile);
}

TEST(a_request_for_code_has_a_mapping_for_each_page_up_to_its_limit) {
    check_pages(3, SONDE_OK, 3);
    check_pages(MAX_MAPPINGS, SONDE_OK, MAX_MAPPINGS);
    check_pages(MAX_MAPPINGS + 1, SONDE_TOO_LARGE, MAX_MAPPINGS);
}
