/* SPDX-License-Identifier: Apache-2.0
 *
 * Which targets a request finds when processes run without a guest. Real processes of this machine;
 * no clock is needed. */
#include "service/engine/backtraces/backtraces.h"
#include "service/engine/heap/heap.h"
#include "tests/unit/engine/host/sleepers.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- one process ------------------------------------------------------------------------------ */

TEST(a_process_without_a_guest_is_found_by_pid_name_and_uuid) {
    struct scene scene;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = pid}), ==, SONDE_OK);
    struct engine_target first = scene.found;
    CHECK(first.is_unattached);
    CHECK_INT(first.pid, ==, pid);
    CHECK_INT(first.uid, ==, geteuid());
    CHECK_STR(first.name, scene.name);
    CHECK_STR(first.executable, "sleep");
    CHECK_INT(strlen(first.uuid), ==, 32);
    CHECK_INT(first.start_unix_ns, >, 0);
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name}), ==, SONDE_OK);
    CHECK_STR(scene.found.uuid, first.uuid);
    CHECK_INT(find(&scene, (struct engine_selector){.uuid = first.uuid}), ==, SONDE_OK);
    CHECK_INT(scene.found.pid, ==, pid);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = pid, .uuid = first.uuid}), ==, SONDE_OK);
    struct sonde_buf command = {0};
    const struct engine_selector by_pid = {.pid = pid};
    CHECK_INT(engine_command_line(scene.engine, &by_pid, &command, NULL), ==, SONDE_OK);
    CHECK_INT(command.len, ==, strlen(scene.name) + 5);
    CHECK_STR(command.data + strlen(scene.name) + 1, "1000");
    sonde_buf_finish(&command);
    end(pid);
    scene_finish(&scene);
}

TEST(what_does_not_run_is_not_found) {
    struct scene scene;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = NOBODY}), ==, SONDE_TARGET_NOT_FOUND);
    CHECK(says(&scene, "no process with pid 4194304 runs here"));
    CHECK_INT(find(&scene, (struct engine_selector){.name = "no such"}), ==,
              SONDE_TARGET_NOT_FOUND);
    CHECK(says(&scene, "no process called no such runs here"));
    CHECK_INT(find(&scene, (struct engine_selector){.uuid = "no such"}), ==,
              SONDE_TARGET_NOT_FOUND);
    CHECK(says(&scene, "no process with uuid no such runs here"));
    CHECK_INT(find(&scene, (struct engine_selector){.pid = pid, .name = "other"}), ==,
              SONDE_TARGET_CONFLICT);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = getpid(), .name = scene.name}), ==,
              SONDE_TARGET_CONFLICT);
    CHECK_INT(find(&scene, (struct engine_selector){0}), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(says(&scene, "no process is attached"));
    end(pid);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = pid}), ==, SONDE_TARGET_NOT_FOUND);
    scene_finish(&scene);
}

TEST(a_name_of_two_processes_is_ambiguous_and_the_answer_lists_their_pids) {
    struct scene scene;
    char pids[32];
    scene_init(&scene);
    pid_t one = start(scene.name, 0), two = start(scene.name, 0);
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name}), ==,
              SONDE_TARGET_AMBIGUOUS);
    CHECK(says(&scene, "2 processes are called sleeper-"));
    snprintf(pids, sizeof pids, " %d", (int)one);
    CHECK(says(&scene, pids));
    snprintf(pids, sizeof pids, " %d", (int)two);
    CHECK(says(&scene, pids));
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name, .pid = two}), ==, SONDE_OK);
    end(one);
    end(two);
    scene_finish(&scene);
}

static void *tell_tid(void *tid) {
    atomic_store((_Atomic pid_t *)tid, (pid_t)syscall(SYS_gettid));
    pause();
    return NULL;
}

TEST(a_thread_is_not_a_process) {
    struct scene scene;
    pthread_t thread;
    _Atomic pid_t tid = 0;
    scene_init(&scene);
    CHECK_INT(pthread_create(&thread, NULL, tell_tid, &tid), ==, 0);
    while (tid == 0)
        usleep(1000);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = tid}), ==, SONDE_TARGET_NOT_FOUND);
    CHECK(says(&scene, "is a thread, not a process"));
    scene_finish(&scene);
}

TEST(a_kernel_thread_is_refused) {
    struct scene scene;
    size_t count, i = 0;
    struct process_entry *list = process_list(&count);
    while (list && i < count && !list[i].is_kernel)
        i++;
    if (!list || i == count)
        check_skip("no kernel thread is visible in this container");
    scene_init(&scene);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = list[i].pid}), ==, SONDE_NOT_AVAILABLE);
    CHECK(says(&scene, "is a kernel thread"));
    CHECK(says(&scene, "sample the whole machine"));
    CHECK_INT(find(&scene, (struct engine_selector){.pid = list[i].pid, .all = true}), ==,
              SONDE_NOT_AVAILABLE);
    scene_finish(&scene);
    free(list);
}

/* --- other users ------------------------------------------------------------------------------ */

TEST(a_caller_only_finds_processes_of_that_user) {
    require_root();
    struct scene scene;
    uid_t caller = USER;
    scene_init(&scene);
    pid_t ours = start(scene.name, 0), theirs = start(scene.name, USER);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = ours, .owner = &caller}), ==,
              SONDE_TARGET_NOT_FOUND);
    CHECK(!strstr(scene.diag.text, scene.name)); /* nor does it say what runs there */
    CHECK_INT(find(&scene, (struct engine_selector){.pid = theirs, .owner = &caller}), ==,
              SONDE_OK);
    CHECK_INT(scene.found.uid, ==, USER);
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name, .owner = &caller}), ==,
              SONDE_OK);
    CHECK_INT(scene.found.pid, ==, theirs);
    /* Of two processes of one name, root means its own. */
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name}), ==, SONDE_OK);
    CHECK_INT(scene.found.pid, ==, ours);
    end(ours);
    end(theirs);
    scene_finish(&scene);
}

static void check_as_user(pid_t theirs, pid_t own, const char *name) {
    static struct engine engine; /* a plan only asks it for rights */
    struct host_plan plan;
    struct sonde_diag diag = {0};
    lock_init(&engine.rights_lock, LOCK_RIGHTS);
    const struct engine_selector by_pid = {.pid = theirs}, of_own = {.pid = own},
                                 by_name = {.name = name}, every = {.all = true},
                                 named = {.name = name, .all = true},
                                 tree = {.pid = own, .all = true};
    CHECK_INT(host_plan_make(&engine, &by_pid, &plan, &diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "belongs to another user (uid 0): run sonded as root or as that"));
    host_plan_finish(&plan);
    CHECK_INT(host_plan_make(&engine, &by_name, &plan, &diag), ==, SONDE_PERMISSION_DENIED);
    host_plan_finish(&plan);
    CHECK_INT(host_plan_make(&engine, &named, &plan, &diag), ==, SONDE_PERMISSION_DENIED);
    host_plan_finish(&plan);
    CHECK_INT(host_plan_make(&engine, &every, &plan, &diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "needs CAP_PERFMON: run sonded as root"));
    host_plan_finish(&plan);
    CHECK_INT(host_plan_make(&engine, &of_own, &plan, &diag), ==, SONDE_OK);
    CHECK(plan.has_owner && plan.owner == USER);
    host_plan_finish(&plan);
    CHECK_INT(host_plan_make(&engine, &tree, &plan, &diag), ==, SONDE_OK);
    CHECK(plan.has_owner && plan.owner == USER && plan.members == HOST_TREE);
    host_plan_finish(&plan);
    char why[192];
    struct process_entry entry;
    CHECK(process_read(theirs, &entry));
    host_explain(&engine, &entry, why);
    CHECK(strstr(why, "another user"));
    CHECK(process_read(own, &entry));
    host_explain(&engine, &entry, why);
    CHECK_STR(why, "");
}

TEST(a_sonded_of_a_plain_user_only_samples_processes_of_that_user) {
    require_root();
    char name[32];
    int status;
    snprintf(name, sizeof name, "sleeper-%d", (int)getpid());
    pid_t theirs = start(name, 0), own = start(NULL, USER);
    pid_t child = fork();
    if (child == 0) {
        if (setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0)
            _exit(2);
        check_as_user(theirs, own, name);
        _exit(0);
    }
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    CHECK_INT(status, ==, 0);
    end(theirs);
    end(own);
}

TEST(a_set_uid_program_belongs_to_neither_of_its_users) {
    require_root();
    struct scene scene;
    uid_t caller = USER;
    scene_init(&scene);
    int ready[2];
    char byte;
    CHECK_INT(pipe(ready), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setresuid(USER, USER, 0) == 0 && write(ready[1], "x", 1) == 1) /* can become root */
            pause();
        _exit(1);
    }
    CHECK_INT(read(ready[0], &byte, 1), ==, 1);
    CHECK_INT(find(&scene, (struct engine_selector){.pid = pid, .owner = &caller}), ==,
              SONDE_TARGET_NOT_FOUND);
    end(pid);
    close(ready[0]);
    close(ready[1]);
    scene_finish(&scene);
}

/* --- several processes ------------------------------------------------------------------------ */

TEST(several_processes_are_one_target) {
    require_root();
    struct scene scene;
    char text[64];
    scene_init(&scene);
    pid_t one = start(scene.name, 0), two = start(scene.name, 0);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true}), ==, SONDE_OK);
    CHECK_STR(scene.found.name, "@all");
    CHECK_INT(scene.found.pid, ==, 0);
    struct engine_target every = scene.found;
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .name = scene.name}), ==,
              SONDE_OK);
    snprintf(text, sizeof text, "@all:%s", scene.name);
    CHECK_STR(scene.found.name, text);
    CHECK(strcmp(scene.found.uuid, every.uuid) != 0);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .pid = one}), ==, SONDE_OK);
    snprintf(text, sizeof text, "@all:%d", (int)one);
    CHECK_STR(scene.found.name, text);
    char uuid[33];
    snprintf(uuid, sizeof uuid, "%s", scene.found.uuid);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .pid = one, .uuid = uuid}), ==,
              SONDE_OK);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .pid = two, .uuid = uuid}), ==,
              SONDE_TARGET_CONFLICT);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .name = "no such"}), ==,
              SONDE_TARGET_NOT_FOUND);
    CHECK_INT(find(&scene, (struct engine_selector){.all = true, .pid = NOBODY}), ==,
              SONDE_TARGET_NOT_FOUND);
    end(one);
    end(two);
    scene_finish(&scene);
}

TEST(a_process_is_called_by_its_name_and_those_of_one_name_by_pid_too) {
    char text[80], name[64];
    memset(name, 'n', sizeof name);
    name[63] = 0;
    const struct host_target every = {.members = HOST_EVERY}, named = {.members = HOST_NAMED};
    host_process_text(&every, "web", 12, text);
    CHECK_STR(text, "web");
    host_process_text(&named, "web", 12, text);
    CHECK_STR(text, "web (12)");
    host_process_text(&named, name, 4194303, text);
    CHECK(strstr(text, "n (4194303)"));
}

/* --- refusals --------------------------------------------------------------------------------- */

static void on_heap(void *context, sonde_err err, const struct sonde_diag *diag,
                    const struct engine_heap_state *state, const struct engine_heap_dump *dumps,
                    size_t count) {
    check_fail(__FILE__, __LINE__, "an answer after a refusal");
}

TEST(what_only_a_guest_can_do_is_refused_and_the_answer_says_how_to_get_one) {
    struct scene scene;
    struct engine_capture *capture;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    const struct engine_selector by_pid = {.pid = pid}, all = {.name = scene.name, .all = true};
    const struct engine_allocs_spec allocs = {.target = by_pid, .duration_ms = 1000};
    CHECK_INT(
        engine_capture_allocs(scene.engine, &allocs, &collect_events, NULL, &capture, &scene.diag),
        ==, SONDE_NOT_AVAILABLE);
    CHECK(says(&scene, "allocation profiles of process "));
    CHECK(says(&scene, "sonde run -- COMMAND, or with LD_PRELOAD=libsonde.so SONDE_SOCKET=/"));
    CHECK(says(&scene, "/guest.sock in its environment"));
    CHECK_INT(engine_allocs_start(scene.engine, &allocs, 0, "", NULL, NULL, &scene.diag), ==,
              SONDE_NOT_AVAILABLE);
    CHECK_INT(engine_allocs_stop(scene.engine, &by_pid, &collect_events, NULL, &scene.diag), ==,
              SONDE_NOT_AVAILABLE);
    struct engine_heap_request heap = {.verb = ENGINE_HEAP_STATUS, .target = by_pid};
    CHECK_INT(engine_heap(scene.engine, &heap, on_heap, NULL, &scene.diag), ==,
              SONDE_NOT_AVAILABLE);
    CHECK(says(&scene, "heap profiles of process "));
    heap.target = all;
    CHECK_INT(engine_heap(scene.engine, &heap, on_heap, NULL, &scene.diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(says(&scene, "only be taken of one process"));
    heap.target = (struct engine_selector){.pid = NOBODY};
    CHECK_INT(engine_heap(scene.engine, &heap, on_heap, NULL, &scene.diag), ==,
              SONDE_TARGET_NOT_FOUND);
    const struct engine_cpu_spec guest = {
        .target = by_pid, .frequency_hz = 99, .source = ENGINE_GUEST};
    CHECK_INT(
        engine_capture_cpu(scene.engine, &guest, &collect_events, NULL, &capture, &scene.diag), ==,
        SONDE_NOT_AVAILABLE);
    CHECK(says(&scene, "sonde run -- COMMAND"));
    end(pid);
    scene_finish(&scene);
}

static void on_backtraces(void *context, sonde_err err, const struct sonde_diag *diag,
                          const struct engine_backtraces *backtraces) {
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(backtraces->thread_count, ==, 1);
    CHECK_INT(backtraces->stack_count, ==, 1);
    CHECK_INT(backtraces->stacks[0].count, >, 1);
    sem_post(context);
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_STR(symbols[0].module, "targets_test");
    sem_post(context);
}

TEST(stacks_and_names_need_no_guest_but_one_process) {
    struct scene scene;
    sem_t answered;
    const uint64_t address = (uint64_t)(uintptr_t)on_symbols;
    scene_init(&scene);
    sem_init(&answered, 0, 0);
    pid_t pid = start(NULL, 0);
    struct engine_backtraces_spec spec = {.target = {.pid = pid}};
    CHECK_INT(engine_backtraces(scene.engine, &spec, on_backtraces, &answered, &scene.diag), ==,
              SONDE_OK);
    sem_wait(&answered);
    CHECK_INT(engine_symbolize(scene.engine, &spec.target, &address, 1, false, on_symbols,
                               &answered, &scene.diag),
              ==, SONDE_OK);
    sem_wait(&answered);
    spec.target.all = true;
    CHECK_INT(engine_backtraces(scene.engine, &spec, on_backtraces, NULL, &scene.diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(says(&scene, "stacks can only be taken of one process"));
    CHECK_INT(engine_symbolize(scene.engine, &spec.target, &address, 1, false, on_symbols, NULL,
                               &scene.diag),
              ==, SONDE_INVALID_ARGUMENT);
    struct sonde_buf command = {0};
    CHECK_INT(engine_command_line(scene.engine, &spec.target, &command, &scene.diag), ==,
              SONDE_INVALID_ARGUMENT);
    end(pid);
    scene_finish(&scene);
}
