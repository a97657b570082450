/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/saved/saved_captures.h"

#include "api/profile/pprof/pprof.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], captures[80];

static void begin(void) {
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)) != NULL);
    snprintf(captures, sizeof captures, "%s/captures", folder);
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_INT(system(command), ==, 0);
}

static struct saved_captures *open_for(uint32_t count, uint64_t bytes) {
    struct saved_captures *saved =
        saved_captures_open(&(struct saved_captures_options){captures, count, bytes});
    CHECK(saved != NULL);
    return saved;
}

/* A profile with one sample of `value` nanoseconds. */
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

/* Half of the sample's time is in bin 0. */
static void add_bins(struct sonde_profile *profile) {
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    timeline->entries = calloc(1, sizeof *timeline->entries);
    timeline->entries[0] = (struct sonde_timeline_entry){0, 0, 1};
    timeline->count = 1;
    sonde_profile_set_timeline(profile, timeline);
    sonde_profile_set_info(profile, &(struct sonde_profile_info){.duration_ns = 1000000000});
}

static bool writes_bins;

static struct saved_capture_draft write_one(struct saved_captures *saved, int64_t value) {
    Sonde__V1__Capture metadata = SONDE__V1__CAPTURE__INIT;
    struct sonde_profile *profile = make(value);
    struct saved_capture_draft draft = {0};
    metadata.frequency_hz = 99;
    if (writes_bins)
        add_bins(profile);
    metadata.target = (char *)"demo";
    metadata.uuid = (char *)"0123";
    metadata.kind = (char *)"cpu";
    metadata.start_unix_ns = value;
    metadata.id = 77; /* ignored */
    CHECK_INT(saved_capture_write(saved, profile, &metadata, &draft, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return draft;
}

static uint64_t add(struct saved_captures *saved, int64_t value) {
    struct saved_capture_draft draft = write_one(saved, value);
    const Sonde__V1__Capture *capture;
    CHECK_INT(saved_captures_add(saved, &draft, &capture, NULL), ==, SONDE_OK);
    CHECK(!draft.path && !draft.metadata);
    return capture->id;
}

static size_t count_of(const struct saved_captures *saved) {
    size_t count;
    (void)saved_captures_list(saved, &count);
    return count;
}

static int64_t value_of(const struct saved_captures *saved, uint64_t id) {
    struct sonde_profile *profile;
    int fd;
    CHECK_INT(saved_captures_open_file(saved, id, &fd, NULL), ==, SONDE_OK);
    CHECK_INT(saved_capture_read(fd, &profile, NULL), ==, SONDE_OK);
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

TEST(a_capture_is_read_back_unchanged) {
    begin();
    struct saved_captures *saved = open_for(4, 1 << 20);
    uint64_t id = add(saved, 4711);
    CHECK_INT(id, ==, 1);
    CHECK_STR(saved_captures_find(saved, id)->target, "demo");
    CHECK_INT(saved_captures_find(saved, id)->size_bytes, >, 20);
    CHECK_INT(value_of(saved, id), ==, 4711);
    saved_captures_close(saved);
    end();
}

static sonde_err read_range(const struct saved_captures *saved, uint64_t id, uint32_t from_ms,
                            struct sonde_diag *diag) {
    struct sonde_profile *profile;
    int fd;
    CHECK_INT(saved_captures_open_file(saved, id, &fd, NULL), ==, SONDE_OK);
    sonde_err err =
        saved_capture_read_range(fd, (struct sonde_timeline_range){from_ms, 100}, &profile, diag);
    CHECK((profile != NULL) == !err);
    sonde_profile_destroy(profile);
    close(fd);
    return err;
}

TEST(time_bins_are_read_back_after_a_restart) {
    begin();
    struct saved_captures *saved = open_for(4, 1 << 20);
    uint64_t without = add(saved, 4711);
    writes_bins = true;
    uint64_t with = add(saved, 4712);
    writes_bins = false;
    saved_captures_close(saved);
    saved = open_for(4, 1 << 20);
    CHECK_INT(count_of(saved), ==, 2);
    struct sonde_diag diag = {0};
    CHECK_INT(saved_captures_find(saved, with)->timeline_bytes, >, 10);
    CHECK_INT(value_of(saved, with), ==, 4712);
    CHECK_INT(read_range(saved, with, 0, &diag), ==, SONDE_OK);
    CHECK_INT(read_range(saved, with, 100, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(read_range(saved, without, 0, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK_STR(diag.text, "this capture has no time bins: it was saved by an older version");
    saved_captures_close(saved);
    end();
}

/* A sonded that does not know time bins reads the whole rest of the file as pprof. */
TEST(time_bins_do_not_disturb_readers_of_pprof) {
    struct sonde_profile *profile = make(4711), *copy;
    struct sonde_buf file = {0};
    add_bins(profile);
    CHECK_INT(sonde_pprof_write(profile, 1, &file, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_timeline_write(sonde_profile_timeline(profile), &file), ==, SONDE_OK);
    CHECK_INT(sonde_pprof_read(sonde_buf_slice(&file), 1 << 20, &copy, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(copy, 1), ==, 4711);
    sonde_profile_destroy(profile);
    sonde_profile_destroy(copy);
    sonde_buf_finish(&file);
}

TEST(the_oldest_captures_are_removed_when_there_are_too_many) {
    begin();
    struct saved_captures *saved = open_for(2, 1 << 20);
    for (int64_t i = 1; i <= 5; i++)
        CHECK_INT(add(saved, i), ==, i);
    CHECK_INT(count_of(saved), ==, 2);
    CHECK(!saved_captures_find(saved, 3) && saved_captures_find(saved, 4) &&
          saved_captures_find(saved, 5));
    CHECK_INT(files(), ==, 2);
    saved_captures_close(saved);
    end();
}

TEST(the_oldest_captures_are_removed_when_they_are_too_large_but_not_the_newest) {
    begin();
    struct saved_captures *saved = open_for(100, 1000);
    for (int64_t i = 1; i <= 40; i++)
        add(saved, i);
    CHECK_INT(count_of(saved), >, 1);
    CHECK_INT(count_of(saved), <, 40);
    CHECK(saved_captures_find(saved, 40) != NULL);
    saved_captures_close(saved);
    saved = open_for(100, 1);
    CHECK_INT(count_of(saved), ==, 1);
    CHECK_INT(value_of(saved, 40), ==, 40);
    saved_captures_close(saved);
    end();
}

TEST(captures_and_numbers_survive_a_restart) {
    begin();
    struct saved_captures *saved = open_for(2, 1 << 20);
    for (int64_t i = 1; i <= 3; i++)
        add(saved, i * 10);
    saved_captures_close(saved);
    saved = open_for(2, 1 << 20);
    CHECK_INT(count_of(saved), ==, 2);
    CHECK_INT(saved_captures_find(saved, 2)->start_unix_ns, ==, 20);
    CHECK_INT(value_of(saved, 3), ==, 30);
    CHECK_INT(add(saved, 40), ==, 4);
    saved_captures_close(saved);
    end();
}

TEST(unfinished_and_damaged_captures_are_removed_at_the_next_start) {
    char path[128];
    begin();
    struct saved_captures *saved = open_for(9, 1 << 20);
    uint64_t whole = add(saved, 1), cut = add(saved, 2);
    struct saved_capture_draft draft = write_one(saved, 3);
    snprintf(path, sizeof path, "%s/%010d.capture", captures, (int)cut);
    CHECK_INT(truncate(path, 40), ==, 0);
    snprintf(path, sizeof path, "%s/0000000009.capture", captures);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK_INT(write(fd, "nonsense", 8), ==, 8);
    close(fd);
    CHECK_INT(files(), ==, 4);
    saved_captures_close(saved);
    saved = open_for(9, 1 << 20);
    CHECK_INT(count_of(saved), ==, 1);
    CHECK(saved_captures_find(saved, whole) != NULL);
    CHECK_INT(files(), ==, 1);
    CHECK_INT(add(saved, 4), ==, 10); /* numbers continue after the highest file name */
    saved_capture_draft_drop(&draft);
    saved_captures_close(saved);
    end();
}

static bool is_left(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", captures, name);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    saved_captures_close(open_for(9, 1 << 20));
    bool is_there = access(path, F_OK) == 0;
    unlink(path);
    return is_there;
}

TEST(unfinished_captures_of_another_running_service_stay) {
    char of_ended[64], of_parent[64];
    begin();
    saved_captures_close(open_for(9, 1 << 20));
    pid_t ended = fork();
    if (ended == 0)
        _exit(0);
    waitpid(ended, NULL, 0);
    snprintf(of_ended, sizeof of_ended, "unfinished-%d-0", (int)ended);
    snprintf(of_parent, sizeof of_parent, "unfinished-%d-0", (int)getppid());
    CHECK(is_left(of_parent));
    CHECK(!is_left(of_ended));
    CHECK(!is_left("unfinished-7"));
    CHECK(!is_left("unfinished--1-x"));
    end();
}

TEST(a_capture_can_be_removed_while_it_is_read) {
    struct sonde_profile *profile;
    int fd;
    begin();
    struct saved_captures *saved = open_for(1, 1 << 20);
    add(saved, 1);
    CHECK_INT(saved_captures_open_file(saved, 1, &fd, NULL), ==, SONDE_OK);
    add(saved, 2);
    CHECK_INT(saved_capture_read(fd, &profile, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(profile, 1), ==, 1);
    sonde_profile_destroy(profile);
    close(fd);
    CHECK_INT(saved_captures_open_file(saved, 1, &fd, NULL), ==, SONDE_NOT_FOUND);
    saved_captures_close(saved);
    end();
}

TEST(a_draft_that_is_dropped_leaves_no_file) {
    begin();
    struct saved_captures *saved = open_for(1, 1 << 20);
    struct saved_capture_draft draft = write_one(saved, 1);
    CHECK_INT(files(), ==, 1);
    saved_capture_draft_drop(&draft);
    saved_capture_draft_drop(&draft);
    CHECK_INT(files(), ==, 0);
    saved_captures_close(saved);
    end();
}

TEST(without_a_folder_saving_is_refused_with_a_reason) {
    Sonde__V1__Capture metadata = SONDE__V1__CAPTURE__INIT;
    struct saved_capture_draft draft = {0};
    struct sonde_diag diag = {0};
    struct sonde_profile *profile = make(1);
    struct saved_captures *saved =
        saved_captures_open(&(struct saved_captures_options){NULL, 1, 1 << 20});
    CHECK_INT(saved_capture_write(saved, profile, &metadata, &draft, &diag), ==,
              SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "--data-dir") != NULL);
    saved_captures_close(saved);
    saved = saved_captures_open(&(struct saved_captures_options){"/proc/nothing", 1, 1 << 20});
    CHECK_INT(saved_capture_write(saved, profile, &metadata, &draft, &diag), ==, SONDE_IO);
    saved_captures_close(saved);
    sonde_profile_destroy(profile);
}

TEST(a_capture_larger_than_the_limit_is_refused) {
    struct sonde_diag diag = {0};
    Sonde__V1__Capture metadata = SONDE__V1__CAPTURE__INIT;
    struct saved_capture_draft draft = {0};
    struct sonde_profile *profile = make(1);
    begin();
    struct saved_captures *saved = open_for(3, 10);
    CHECK_INT(saved_capture_write(saved, profile, &metadata, &draft, &diag), ==, SONDE_TOO_LARGE);
    CHECK_INT(files(), ==, 0);
    saved_captures_close(saved);
    sonde_profile_destroy(profile);
    end();
}

TEST(a_result_that_was_saved_before_is_recognised) {
    begin();
    struct saved_captures *saved = open_for(4, 1 << 20);
    add(saved, 5);
    const Sonde__V1__Capture *first = saved_captures_find(saved, 1);
    CHECK(saved_captures_find_equal(saved, first) == first);
    Sonde__V1__Capture other = *first;
    other.start_unix_ns++;
    CHECK(!saved_captures_find_equal(saved, &other));
    saved_captures_close(saved);
    end();
}
