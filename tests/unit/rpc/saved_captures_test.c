/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/saved_captures.h"

#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64], captures[80];

static void begin(void) {
    strcpy(folder, "/tmp/x.XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(captures, sizeof captures, "%s/captures", folder);
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_INT(system(command), ==, 0);
}

static struct kept *open_for(uint32_t count, uint64_t bytes) {
    struct kept *kept = kept_open(&(struct kept_options){captures, count, bytes});
    CHECK(kept != NULL);
    return kept;
}

/* One sample of `value` nanoseconds. */
static struct sonde_profile *make(int64_t value) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_location location = {.address = 16};
    uint32_t id;
    const int64_t values[] = {1, value};
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

static struct kept_draft write_one(struct kept *kept, int64_t value) {
    Sonde__V1__Capture facts = SONDE__V1__CAPTURE__INIT;
    struct sonde_profile *profile = make(value);
    struct kept_draft draft = {0};
    facts.target = (char *)"demo";
    facts.uuid = (char *)"0123";
    facts.kind = (char *)"cpu";
    facts.start_unix_ns = value;
    facts.id = 77; /* not looked at */
    CHECK_INT(kept_write(kept, profile, &facts, &draft, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return draft;
}

static uint64_t add(struct kept *kept, int64_t value) {
    struct kept_draft draft = write_one(kept, value);
    const Sonde__V1__Capture *capture;
    CHECK_INT(kept_add(kept, &draft, &capture, NULL), ==, SONDE_OK);
    CHECK(!draft.path && !draft.facts);
    return capture->id;
}

static size_t count_of(const struct kept *kept) {
    size_t count;
    (void)kept_list(kept, &count);
    return count;
}

static int64_t value_of(const struct kept *kept, uint64_t id) {
    struct sonde_profile *profile;
    int fd;
    CHECK_INT(kept_open_file(kept, id, &fd, NULL), ==, SONDE_OK);
    CHECK_INT(kept_read(fd, &profile, NULL), ==, SONDE_OK);
    int64_t total = sonde_profile_total(profile, 1);
    sonde_profile_destroy(profile);
    close(fd);
    return total;
}

static int files(void) {
    char command[128];
    int count = -1;
    snprintf(command, sizeof command, "ls %s | wc -l", captures);
    FILE *pipe = popen(command, "r");
    CHECK_INT(fscanf(pipe, "%d", &count), ==, 1);
    pclose(pipe);
    return count;
}

TEST(a_capture_is_read_as_it_was_written) {
    begin();
    struct kept *kept = open_for(4, 1 << 20);
    uint64_t id = add(kept, 4711);
    CHECK_INT(id, ==, 1);
    CHECK_STR(kept_find(kept, id)->target, "demo");
    CHECK_INT(kept_find(kept, id)->size_bytes, >, 20);
    CHECK_INT(value_of(kept, id), ==, 4711);
    kept_close(kept);
    end();
}

TEST(the_oldest_go_when_there_are_too_many) {
    begin();
    struct kept *kept = open_for(2, 1 << 20);
    for (int64_t i = 1; i <= 5; i++)
        CHECK_INT(add(kept, i), ==, i);
    CHECK_INT(count_of(kept), ==, 2);
    CHECK(!kept_find(kept, 3) && kept_find(kept, 4) && kept_find(kept, 5));
    CHECK_INT(files(), ==, 2);
    kept_close(kept);
    end();
}

TEST(the_oldest_go_when_they_are_too_large_but_the_newest_stays) {
    begin();
    struct kept *kept = open_for(100, 1000);
    for (int64_t i = 1; i <= 40; i++)
        add(kept, i);
    CHECK_INT(count_of(kept), >, 1);
    CHECK_INT(count_of(kept), <, 40);
    CHECK(kept_find(kept, 40) != NULL);
    kept_close(kept);
    kept = open_for(100, 1);
    CHECK_INT(count_of(kept), ==, 1);
    CHECK_INT(value_of(kept, 40), ==, 40);
    kept_close(kept);
    end();
}

TEST(captures_and_numbers_survive_a_restart) {
    begin();
    struct kept *kept = open_for(2, 1 << 20);
    for (int64_t i = 1; i <= 3; i++)
        add(kept, i * 10);
    kept_close(kept);
    kept = open_for(2, 1 << 20);
    CHECK_INT(count_of(kept), ==, 2);
    CHECK_INT(kept_find(kept, 2)->start_unix_ns, ==, 20);
    CHECK_INT(value_of(kept, 3), ==, 30);
    CHECK_INT(add(kept, 40), ==, 4);
    kept_close(kept);
    end();
}

TEST(what_is_unfinished_or_broken_is_removed_at_the_next_start) {
    char path[128];
    begin();
    struct kept *kept = open_for(9, 1 << 20);
    uint64_t whole = add(kept, 1), cut = add(kept, 2);
    struct kept_draft draft = write_one(kept, 3);
    snprintf(path, sizeof path, "%s/%010d.capture", captures, (int)cut);
    CHECK_INT(truncate(path, 40), ==, 0);
    snprintf(path, sizeof path, "%s/0000000009.capture", captures);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK_INT(write(fd, "nonsense", 8), ==, 8);
    close(fd);
    CHECK_INT(files(), ==, 4);
    kept_close(kept);
    kept = open_for(9, 1 << 20);
    CHECK_INT(count_of(kept), ==, 1);
    CHECK(kept_find(kept, whole) != NULL);
    CHECK_INT(files(), ==, 1);
    CHECK_INT(add(kept, 4), ==, 10); /* after whatever stood there */
    kept_draft_drop(&draft);
    kept_close(kept);
    end();
}

TEST(a_capture_that_is_read_may_be_dropped_meanwhile) {
    struct sonde_profile *profile;
    int fd;
    begin();
    struct kept *kept = open_for(1, 1 << 20);
    add(kept, 1);
    CHECK_INT(kept_open_file(kept, 1, &fd, NULL), ==, SONDE_OK);
    add(kept, 2);
    CHECK_INT(kept_read(fd, &profile, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(profile, 1), ==, 1);
    sonde_profile_destroy(profile);
    close(fd);
    CHECK_INT(kept_open_file(kept, 1, &fd, NULL), ==, SONDE_NOT_FOUND);
    kept_close(kept);
    end();
}

TEST(a_draft_that_is_dropped_leaves_no_file) {
    begin();
    struct kept *kept = open_for(1, 1 << 20);
    struct kept_draft draft = write_one(kept, 1);
    CHECK_INT(files(), ==, 1);
    kept_draft_drop(&draft);
    kept_draft_drop(&draft);
    CHECK_INT(files(), ==, 0);
    kept_close(kept);
    end();
}

TEST(nothing_is_kept_without_a_folder_and_the_reason_is_told) {
    Sonde__V1__Capture facts = SONDE__V1__CAPTURE__INIT;
    struct kept_draft draft = {0};
    struct sonde_diag diag = {0};
    struct sonde_profile *profile = make(1);
    struct kept *kept = kept_open(&(struct kept_options){NULL, 1, 1 << 20});
    CHECK_INT(kept_write(kept, profile, &facts, &draft, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "--data-dir") != NULL);
    kept_close(kept);
    kept = kept_open(&(struct kept_options){"/proc/nothing", 1, 1 << 20});
    CHECK_INT(kept_write(kept, profile, &facts, &draft, &diag), ==, SONDE_IO);
    kept_close(kept);
    sonde_profile_destroy(profile);
}

TEST(a_capture_larger_than_the_bound_is_refused) {
    struct sonde_diag diag = {0};
    Sonde__V1__Capture facts = SONDE__V1__CAPTURE__INIT;
    struct kept_draft draft = {0};
    struct sonde_profile *profile = make(1);
    begin();
    struct kept *kept = open_for(3, 10);
    CHECK_INT(kept_write(kept, profile, &facts, &draft, &diag), ==, SONDE_TOO_LARGE);
    CHECK_INT(files(), ==, 0);
    kept_close(kept);
    sonde_profile_destroy(profile);
    end();
}

TEST(a_result_that_comes_again_is_known) {
    begin();
    struct kept *kept = open_for(4, 1 << 20);
    add(kept, 5);
    const Sonde__V1__Capture *first = kept_find(kept, 1);
    CHECK(kept_find_equal(kept, first) == first);
    Sonde__V1__Capture other = *first;
    other.start_unix_ns++;
    CHECK(!kept_find_equal(kept, &other));
    kept_close(kept);
    end();
}
