/* SPDX-License-Identifier: Apache-2.0
 *
 * H4: taking a snapshot never holds a lock that the program's threads need. So if sonded or the
 * guest's control thread is stopped at any point, eight threads still allocate. Measured without a
 * clock. */
#include "tests/unit/engine/heap/stage.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOPS 12
#define LARGE (50ll << 20)

static const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};

static void activate(struct stage *stage) {
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096};
    CHECK_INT(stage_ask(stage, on).err, ==, SONDE_OK);
}

static void check_snapshot(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){.require_active = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), ==, LARGE);
    got_finish(&got);
}

/* ---- The service is stopped ---- */

struct shared {
    _Atomic bool is_reading;
    _Atomic unsigned snapshots;
};

/* A sonded in a process of its own, which takes one snapshot after another until it is killed. */
static void serve(struct stage *stage, struct shared *shared) {
    stage->engine = place_engine(&stage->place);
    stage_wait_attached(stage);
    for (;;) {
        shared->is_reading = true;
        check_snapshot(stage);
        shared->is_reading = false;
        shared->snapshots++;
    }
}

static void wait_for_snapshot(const struct shared *shared, pid_t service) {
    for (unsigned before = shared->snapshots; shared->snapshots == before;) {
        CHECK_INT(waitpid(service, NULL, WNOHANG), ==, 0);
        usleep(1000);
    }
}

/* True if it was taking a snapshot. */
static bool stop_once(struct stage *stage, const struct shared *shared, pid_t service) {
    usleep((useconds_t)(rand() % 30000));
    CHECK_INT(kill(service, SIGSTOP), ==, 0);
    bool was_reading = shared->is_reading;
    stage_tell(stage, 'p');
    CHECK_INT(kill(service, SIGCONT), ==, 0);
    return was_reading;
}

TEST(h4_threads_go_on_while_sonded_is_stopped_in_mid_snapshot) {
    struct stage stage;
    int hits = 0;
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stage_init(&stage, NULL, plain);
    activate(&stage);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'w');
    engine_destroy(stage.engine);
    stage.engine = NULL;
    pid_t service = fork();
    if (service == 0)
        serve(&stage, shared);
    wait_for_snapshot(shared, service);
    for (int i = 0; i < STOPS; i++)
        hits += stop_once(&stage, shared, service);
    wait_for_snapshot(shared, service); /* and the stopped processes end normally */
    printf("  stopped %d times, %d of them in mid-snapshot; %u snapshots\n", STOPS, hits,
           shared->snapshots);
    CHECK_INT(hits, >, 0);
    kill(service, SIGKILL);
    waitpid(service, NULL, 0);
    stage_tell(&stage, 'W');
    stage_finish(&stage);
    munmap(shared, sizeof *shared);
}

/* ---- The guest's own thread is stopped ---- */

static pid_t find_thread(pid_t pid, const char *name) {
    char path[64], comm[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    pid_t found = 0;
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        char at[512];
        snprintf(at, sizeof at, "%s/%s/comm", path, entry->d_name);
        FILE *file = fopen(at, "r");
        if (file && fgets(comm, sizeof comm, file) && strcmp(comm, name) == 0)
            found = (pid_t)atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

TEST(h4_a_snapshot_is_whole_and_threads_go_on_while_the_guests_own_thread_is_stopped) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'w');
    pid_t thread = find_thread(stage.pid, "sonde\n");
    CHECK_INT(thread, >, 0);
    CHECK_INT(ptrace(PTRACE_SEIZE, thread, NULL, NULL), ==, 0);
    CHECK_INT(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), ==, 0);
    CHECK_INT(waitpid(thread, NULL, __WALL), ==, thread);
    for (int i = 0; i < 3; i++) {
        stage_tell(&stage, 'p');
        check_snapshot(&stage);
    }
    stage_tell(&stage, 'W');
    stage_tell(&stage, 's'); /* 50 MiB more */
    struct got got = stage_get(&stage, (struct engine_heap_query){.require_active = true});
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), ==, 2 * LARGE);
    got_finish(&got);
    CHECK_INT(ptrace(PTRACE_DETACH, thread, NULL, NULL), ==, 0);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    stage_finish(&stage);
}
