/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests attach, are described, and leave. Broken ones do not affect others. */
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"
#include "tests/unit/engine/fake_guest.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const struct engine_selector anything;

static void wait_for_targets(struct engine *engine, uint32_t count) {
    struct engine_counters counters;
    for (int i = 0; i < 5000; i++) {
        engine_counters(engine, &counters);
        if (counters.targets == count)
            return;
        usleep(1000);
    }
    check_fail(__FILE__, __LINE__, "%u targets, not %u", counters.targets, count);
}

TEST(a_guest_attaches_is_described_and_leaves) {
    struct place place;
    struct fake_guest guest;
    struct engine_target target;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guest, place.socket, "redis", 7);
    CHECK_INT(engine_find(engine, &anything, &target, NULL), ==, SONDE_OK);
    CHECK_STR(target.name, "redis");
    CHECK_INT(target.pid, ==, getpid());
    CHECK_STR(target.guest_version, "test");
    CHECK_STR(target.uuid, "07000000000000000000000000000000");
    CHECK_STR(target.executable, "attach_test");
    CHECK(target.start_unix_ns > 0 && target.start_unix_ns <= target.attached_unix_ns + 20000000);
    size_t count;
    struct engine_target *list = engine_targets(engine, &count);
    CHECK_INT(count, ==, 1);
    CHECK_STR(list[0].name, "redis");
    free(list);
    fake_close(&guest);
    wait_for_targets(engine, 0);
    CHECK(engine_targets(engine, &count) == NULL);
    CHECK_INT(count, ==, 0);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_name_is_sanitised_and_an_empty_one_is_taken_from_the_command_line) {
    struct place place;
    struct fake_guest guest, other;
    struct engine_target target;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guest, place.socket, "a/b \x1b[31m\n\"x", 1);
    CHECK_INT(engine_find(engine, &anything, &target, NULL), ==, SONDE_OK);
    CHECK_STR(target.name, "a_b__[31m__x");
    fake_close(&guest);
    wait_for_targets(engine, 0);
    fake_attach(&other, place.socket, "", 2);
    CHECK_INT(engine_find(engine, &anything, &target, NULL), ==, SONDE_OK);
    CHECK_STR(target.name, "attach_test");
    struct sonde_buf command = {0};
    CHECK_INT(engine_command_line(engine, &anything, &command, NULL), ==, SONDE_OK);
    CHECK(command.len >= strlen("attach_test"));
    CHECK(strstr(command.data, "attach_test") != NULL);
    CHECK(command.data[command.len - 1] != 0);
    sonde_buf_finish(&command);
    fake_close(&other);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_target_is_found_by_name_pid_and_uuid) {
    struct place place;
    struct fake_guest first, second, third;
    struct engine_target target;
    struct sonde_diag diag = {0};
    place_make(&place);
    struct engine *engine = place_engine(&place);
    CHECK_INT(engine_find(engine, &anything, &target, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(strstr(diag.text, "sonde run") != NULL);
    fake_attach(&first, place.socket, "redis", 1);
    fake_attach(&second, place.socket, "nginx", 2);
    fake_attach(&third, place.socket, "nginx", 3);
    struct engine_selector selector = {.name = "redis"};
    CHECK_INT(engine_find(engine, &selector, &target, &diag), ==, SONDE_OK);
    CHECK_STR(target.name, "redis");
    selector = (struct engine_selector){.uuid = "02000000000000000000000000000000"};
    CHECK_INT(engine_find(engine, &selector, &target, &diag), ==, SONDE_OK);
    CHECK_STR(target.name, "nginx");
    selector.name = "redis";
    CHECK_INT(engine_find(engine, &selector, &target, &diag), ==, SONDE_TARGET_CONFLICT);
    selector = (struct engine_selector){.name = "apache"};
    CHECK_INT(engine_find(engine, &selector, &target, &diag), ==, SONDE_TARGET_NOT_FOUND);
    CHECK(strstr(diag.text, "apache") != NULL);
    selector = (struct engine_selector){.name = "redis", .pid = 4194304};
    CHECK_INT(engine_find(engine, &selector, &target, &diag), ==, SONDE_TARGET_NOT_FOUND);
    CHECK(strstr(diag.text, "pid 4194304 ") != NULL);
    fake_close(&first);
    fake_close(&second);
    fake_close(&third);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(an_ambiguous_choice_lists_name_pid_and_start_of_each) {
    struct place place;
    struct fake_guest guests[40];
    struct engine_target target;
    struct sonde_diag diag = {0};
    char line[64];
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guests[0], place.socket, "redis", 1);
    fake_attach(&guests[1], place.socket, "nginx", 2);
    CHECK_INT(engine_find(engine, &anything, &target, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(strncmp(diag.text, "2 processes are attached", 24) == 0);
    snprintf(line, sizeof line, "\nredis  %d  20", (int)getpid());
    CHECK(strstr(diag.text, line) != NULL);
    snprintf(line, sizeof line, "\nnginx  %d  20", (int)getpid());
    CHECK(strstr(diag.text, line) != NULL);
    struct engine_selector by_pid = {.pid = getpid()};
    CHECK_INT(engine_find(engine, &by_pid, &target, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    for (uint32_t i = 2; i < 40; i++)
        fake_attach(&guests[i], place.socket, "a-rather-long-name-of-a-server-process", i + 1);
    CHECK_INT(engine_find(engine, &anything, &target, &diag), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(strlen(diag.text) < sizeof diag.text);
    CHECK(strstr(diag.text, "\nand ") != NULL);
    for (uint32_t i = 0; i < 40; i++)
        fake_close(&guests[i]);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_guest_of_another_protocol_version_is_refused_with_a_reason) {
    struct place place;
    struct fake_guest guest;
    sonde_guest_v1_FromGuest hello = sonde_guest_v1_FromGuest_init_zero;
    sonde_guest_v1_ToGuest answer;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_connect(&guest, place.socket);
    hello.which_message = sonde_guest_v1_FromGuest_hello_tag;
    hello.message.hello.protocol = 2;
    fake_send(&guest, &hello, -1);
    fake_expect(&guest, sonde_guest_v1_ToGuest_refusal_tag, &answer);
    CHECK(strstr(answer.message.refusal.reason, "protocol") != NULL);
    CHECK(fake_is_disconnected(&guest));
    fake_close(&guest);
    engine_destroy(engine);
    place_remove(&place);
}

/* Invalid input ends the connection it arrives on, and nothing else. */
TEST(broken_guests_are_disconnected_and_others_stay) {
    static const char *const nonsense[] = {"\0\0\0\0", "\xff\xff\xff\xff", "\1\0\0\0\xff",
                                           "\2\0\0\0\x22\0" /* CpuState before Hello */};
    static const size_t lengths[] = {4, 4, 5, 6};
    struct place place;
    struct fake_guest good, bad;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&good, place.socket, "good", 1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        fake_connect(&bad, place.socket);
        fake_send_raw(&bad, nonsense[i], lengths[i]);
        CHECK(fake_is_disconnected(&bad));
        fake_close(&bad);
    }
    fake_attach(&bad, place.socket, "bad", 2);
    fake_hello(&bad, "again", 3);
    CHECK(fake_is_disconnected(&bad));
    fake_close(&bad);
    wait_for_targets(engine, 1);
    fake_close(&good);
    engine_destroy(engine);
    place_remove(&place);
}

static uint32_t open_fds(void) {
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

TEST(unexpected_descriptors_are_closed) {
    struct place place;
    struct fake_guest guest;
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    uint32_t before = open_fds();
    message.which_message = sonde_guest_v1_FromGuest_cpu_account_tag;
    for (int round = 0; round < 3; round++) {
        fake_attach(&guest, place.socket, "fds", 1);
        for (int i = 0; i < 20; i++)
            fake_send(&guest, &message, STDIN_FILENO);
        CHECK(fake_is_disconnected(&guest));
        fake_close(&guest);
        wait_for_targets(engine, 0);
    }
    CHECK_INT(open_fds(), ==, before);
    engine_destroy(engine);
    place_remove(&place);
}

/* Ordinary files can shrink while they are mapped, which would be SIGBUS. Pipes cannot be mapped.
 */
TEST(rings_that_cannot_be_sealed_are_refused) {
    struct place place;
    struct fake_guest guest;
    char path[128];
    int pipes[2];
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guest, place.socket, "file", 1);
    snprintf(path, sizeof path, "%s/file", place.dir);
    guest.rings_fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK_INT(ftruncate(guest.rings_fd, 1 << 20), ==, 0);
    fake_send_rings(&guest);
    CHECK(fake_is_disconnected(&guest));
    fake_close(&guest);
    fake_attach(&guest, place.socket, "pipe", 2);
    CHECK_INT(pipe(pipes), ==, 0);
    guest.rings_fd = pipes[0];
    fake_send_rings(&guest);
    CHECK(fake_is_disconnected(&guest));
    close(pipes[1]);
    fake_close(&guest);
    fake_attach(&guest, place.socket, "sealed against seals", 4);
    fake_make_rings(&guest, 2); /* good rings, which their owner could still shrink */
    CHECK_INT(fcntl(guest.rings_fd, F_ADD_SEALS, F_SEAL_SEAL), ==, 0);
    fake_send_rings(&guest);
    CHECK(fake_is_disconnected(&guest));
    fake_close(&guest);
    fake_attach(&guest, place.socket, "none", 3);
    fake_send_rings(&guest);
    CHECK(fake_is_disconnected(&guest));
    fake_close(&guest);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_guest_that_reconnects_replaces_its_old_connection) {
    struct place place;
    struct fake_guest first, second;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&first, place.socket, "again", 9);
    fake_attach(&second, place.socket, "again", 9);
    wait_for_targets(engine, 1);
    CHECK(fake_is_disconnected(&first));
    fake_close(&first);
    fake_close(&second);
    engine_destroy(engine);
    place_remove(&place);
}

struct watched {
    _Atomic int attached, gone, synced, attached_before_sync;
};

static void on_target(void *context, bool attached, const struct engine_target *target) {
    struct watched *watched = context;
    if (!target) {
        watched->attached_before_sync = watched->attached;
        watched->synced++;
    } else if (attached) {
        watched->attached++;
    } else {
        watched->gone++;
    }
}

static void wait_for(const _Atomic int *counter, int wanted) {
    for (int i = 0; i < 5000 && *counter < wanted; i++)
        usleep(1000);
    CHECK_INT(*counter, ==, wanted);
}

TEST(a_watch_gets_the_list_then_synced_then_changes_and_nothing_after_its_end) {
    struct place place;
    struct fake_guest first, second;
    struct watched watched = {0};
    struct engine_watch *watch;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&first, place.socket, "first", 1);
    CHECK_INT(engine_watch(engine, on_target, &watched, &watch), ==, SONDE_OK);
    wait_for(&watched.synced, 1);
    CHECK_INT(watched.attached_before_sync, ==, 1);
    fake_attach(&second, place.socket, "second", 2);
    wait_for(&watched.attached, 2);
    fake_close(&first);
    wait_for(&watched.gone, 1);
    engine_unwatch(engine, watch);
    fake_close(&second);
    wait_for_targets(engine, 0);
    CHECK_INT(watched.gone, ==, 1);
    CHECK_INT(watched.synced, ==, 1);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_watch_hears_nothing_of_another_watch_that_begins) {
    struct place place;
    struct fake_guest guest;
    struct watched first = {0}, second = {0};
    struct engine_watch *first_watch, *second_watch;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guest, place.socket, "only", 1);
    CHECK_INT(engine_watch(engine, on_target, &first, &first_watch), ==, SONDE_OK);
    wait_for(&first.synced, 1);
    CHECK_INT(engine_watch(engine, on_target, &second, &second_watch), ==, SONDE_OK);
    wait_for(&second.synced, 1);
    engine_unwatch(engine, second_watch); /* waits until events that are under way have run */
    CHECK_INT(second.attached, ==, 1);
    CHECK_INT(first.attached, ==, 1);
    CHECK_INT(first.synced, ==, 1);
    engine_unwatch(engine, first_watch);
    fake_close(&guest);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_second_sonded_on_the_socket_is_refused_and_a_stale_socket_is_removed) {
    struct place place;
    struct engine *second;
    struct sonde_diag diag = {0};
    struct stat status;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    struct engine_options options = {.socket_path = place.socket, .data_dir = place.data};
    CHECK_INT(engine_create(&options, &second, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(diag.text, "another sonded serves") != NULL);
    char dir[64];
    snprintf(dir, sizeof dir, "%s/run", place.dir);
    CHECK_INT(stat(dir, &status), ==, 0);
    CHECK_INT(status.st_mode & 0777, ==, 0700);
    engine_destroy(engine);
    CHECK_INT(access(place.socket, F_OK), ==, -1);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path, place.socket);
    CHECK_INT(bind(stale, (struct sockaddr *)&address, sizeof address), ==, 0);
    close(stale);
    engine = place_engine(&place);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_file_in_the_sockets_place_is_not_removed) {
    struct place place;
    struct engine *engine;
    struct sonde_diag diag = {0};
    place_make(&place);
    strcpy(place.socket + strlen(place.dir), "/file");
    close(open(place.socket, O_RDWR | O_CREAT, 0600));
    struct engine_options options = {.socket_path = place.socket, .data_dir = place.data};
    CHECK_INT(engine_create(&options, &engine, &diag), ==, SONDE_NOT_AVAILABLE);
    CHECK_INT(access(place.socket, F_OK), ==, 0);
    place_remove(&place);
}

TEST(abstract_sockets_work_and_are_exclusive_too) {
    struct place place;
    struct fake_guest guest;
    struct engine *second;
    struct sonde_diag diag = {0};
    place_make(&place);
    snprintf(place.socket, sizeof place.socket, "@sonde-test%s", strrchr(place.dir, '.'));
    struct engine *engine = place_engine(&place);
    struct engine_options options = {.socket_path = place.socket, .data_dir = place.data};
    CHECK_INT(engine_create(&options, &second, &diag), ==, SONDE_NOT_AVAILABLE);
    fake_attach(&guest, place.socket, "abstract", 1);
    fake_close(&guest);
    engine_destroy(engine);
    place_remove(&place);
}

/* Number of times that the engine's threads have gone to sleep. It grows whenever one was woken. */
static long sleeps(void) {
    long sum = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        char path[300], line[128];
        long switches = 0;
        bool is_ours = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file)) {
            is_ours |= strncmp(line, "Name:\tsonde-", 12) == 0;
            (void)!sscanf(line, "voluntary_ctxt_switches: %ld", &switches);
        }
        if (file)
            fclose(file);
        sum += is_ours ? switches : 0;
    }
    closedir(tasks);
    return sum;
}

TEST(an_idle_engine_with_a_guest_is_never_woken) {
    struct place place;
    struct fake_guest guest;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_attach(&guest, place.socket, "idle", 1);
    usleep(100000);
    long before = sleeps();
    CHECK_INT(before, >, 0);
    usleep(500000);
    CHECK_INT(sleeps(), ==, before);
    fake_close(&guest);
    engine_destroy(engine);
    place_remove(&place);
}

TEST(a_connection_without_hello_does_not_keep_the_engine_alive) {
    struct place place;
    struct fake_guest guest;
    place_make(&place);
    struct engine *engine = place_engine(&place);
    fake_connect(&guest, place.socket);
    usleep(20000);
    engine_destroy(engine);
    fake_close(&guest);
    place_remove(&place);
}
