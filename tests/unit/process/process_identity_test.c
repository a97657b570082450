/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/process_identity.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER  12345
#define GROUP 23456

/* A child that has connected to us with these ids (0 = ours), and sleeps. */
struct peer {
    pid_t pid;
    int listener, socket;
    char path[108];
};

static void become(uid_t user, gid_t group) {
    if (group && setgroups(1, &group) != 0)
        _exit(1);
    if (user && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0))
        _exit(1);
}

static void start_peer(struct peer *peer, uid_t user, gid_t group) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(close(mkstemp(temporary_template(peer->path, sizeof peer->path))) == 0);
    CHECK(unlink(peer->path) == 0);
    memcpy(address.sun_path, peer->path, sizeof peer->path);
    peer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(peer->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(peer->listener, 1) == 0);
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    peer->pid = fork();
    if (peer->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int status = connect(client, (struct sockaddr *)&address, sizeof address);
        become(user, group);
        if (status != 0 || write(client, "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(client);
    peer->socket = accept(peer->listener, NULL, NULL);
    char byte;
    CHECK(peer->socket >= 0 && read(peer->socket, &byte, 1) == 1);
}

static void kill_peer(struct peer *peer) {
    CHECK(kill(peer->pid, SIGKILL) == 0);
    CHECK(waitpid(peer->pid, NULL, 0) == peer->pid);
}

static void finish_peer(struct peer *peer) {
    close(peer->socket);
    close(peer->listener);
    unlink(peer->path);
}

static void require_root(void) {
    if (geteuid() != 0)
        check_skip("only root can take the rights of other users");
}

/* --- identity --------------------------------------------------------------------------------- */

TEST(the_process_that_connected_holds_until_it_has_ended) {
    struct peer peer;
    struct process_identity identity;
    start_peer(&peer, 0, 0);
    CHECK(process_identity_of_peer(peer.socket, &identity));
    CHECK_INT(identity.pid, ==, peer.pid);
    CHECK_INT(identity.ids.uids[1], ==, geteuid());
    CHECK(process_identity_is_alive(&identity) && process_identity_holds(&identity));
    kill_peer(&peer);
    CHECK(!process_identity_is_alive(&identity) && !process_identity_holds(&identity));
    process_identity_finish(&identity);
    finish_peer(&peer);
}

TEST(a_process_that_ended_before_its_connection_was_accepted_never_holds) {
    struct peer peer;
    struct process_identity identity;
    start_peer(&peer, 0, 0);
    kill_peer(&peer);
    CHECK(process_identity_of_peer(peer.socket, &identity));
    CHECK(!process_identity_is_alive(&identity) && !process_identity_holds(&identity));
    process_identity_finish(&identity);
    finish_peer(&peer);
}

TEST(a_process_with_another_start_time_is_another_process) {
    struct process_identity identity;
    process_identity_of_self(&identity);
    CHECK(process_identity_holds(&identity));
    identity.start_ticks++;
    CHECK(!process_identity_is_alive(&identity) && !process_identity_holds(&identity));
}

TEST(a_living_process_with_the_pid_of_the_dead_one_is_another_process) {
    struct peer peer;
    struct process_identity identity;
    start_peer(&peer, 0, 0);
    CHECK(process_identity_of_peer(peer.socket, &identity));
    kill_peer(&peer);
    if (identity.pidfd < 0)
        check_skip("the kernel has no pidfds");
    identity.pid = getpid(); /* as if we had got its pid, within the same clock tick */
    identity.start_ticks = process_start_ticks(getpid());
    CHECK(!process_identity_is_alive(&identity) && !process_identity_holds(&identity));
    process_identity_finish(&identity);
    finish_peer(&peer);
}

TEST(a_process_with_any_other_id_does_not_hold) {
    struct process_identity self, identity;
    process_identity_of_self(&self);
    for (int i = 0; i < 6; i++) {
        identity = self;
        identity.ids = (struct process_ids){{USER, USER, USER}, {USER, USER, USER}};
        if (i < 3)
            identity.ids.uids[i] = self.ids.uids[i];
        else
            identity.ids.gids[i - 3] = self.ids.gids[i - 3];
        bool connected_as_root = identity.ids.uids[1] == 0;
        CHECK(process_identity_holds(&identity) == connected_as_root);
    }
}

TEST(a_process_that_gave_up_root_after_it_connected_holds) {
    require_root();
    struct peer peer;
    struct process_identity identity;
    start_peer(&peer, USER, 0);
    CHECK(process_identity_of_peer(peer.socket, &identity));
    CHECK_INT(identity.ids.uids[1], ==, 0); /* as it was when it connected */
    CHECK(process_identity_holds(&identity));
    kill_peer(&peer);
    process_identity_finish(&identity);
    finish_peer(&peer);
}

TEST(a_process_of_another_pid_namespace_never_holds) {
    struct process_identity identity = {.pid = 0, .pidfd = -1, .start_ticks = 1};
    CHECK(!process_identity_is_alive(&identity) && !process_identity_holds(&identity));
}

/* Has the next process get that pid. */
static pid_t fork_with_pid(pid_t pid) {
    uint64_t args[11] = {0}; /* struct clone_args */
    pid_t wanted[1] = {pid};
    args[4] = SIGCHLD;
    args[8] = (uint64_t)(uintptr_t)wanted;
    args[9] = 1;
    pid_t child = (pid_t)syscall(SYS_clone3, args, sizeof args);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return child;
}

TEST(the_process_of_a_pid_is_not_the_next_one_with_that_pid) {
    struct process_identity first, second;
    struct peer peer = {.pid = fork()};
    if (peer.pid == 0)
        for (;;)
            pause();
    CHECK(process_identity_of_pid(peer.pid, &first));
    CHECK_INT(first.pid, ==, peer.pid);
    CHECK_INT(first.ids.uids[1], ==, geteuid());
    CHECK(process_identity_holds(&first));
    kill_peer(&peer);
    CHECK(!process_identity_holds(&first));
    CHECK(!process_identity_of_pid(peer.pid, &second));
    CHECK_INT(second.pidfd, ==, -1);
    if (fork_with_pid(peer.pid) != peer.pid)
        check_skip("only root can choose the pid of a new process");
    CHECK(!process_identity_is_alive(&first) && !process_identity_holds(&first));
    CHECK(process_identity_of_pid(peer.pid, &second));
    CHECK(process_identity_holds(&second));
    kill_peer(&peer);
    process_identity_finish(&first);
    process_identity_finish(&second);
}

static void *tell_tid(void *tid) {
    atomic_store((_Atomic pid_t *)tid, (pid_t)syscall(SYS_gettid));
    pause();
    return NULL;
}

TEST(a_thread_is_not_a_process) {
    pthread_t thread;
    _Atomic pid_t tid = 0;
    struct process_identity identity;
    CHECK(pthread_create(&thread, NULL, tell_tid, &tid) == 0);
    while (atomic_load(&tid) == 0)
        sched_yield();
    CHECK(!process_identity_of_pid(tid, &identity));
    CHECK(!process_identity_of_pid(0, &identity));
    CHECK(!process_identity_of_pid(-5, &identity));
    CHECK(process_identity_of_pid(getpid(), &identity));
    process_identity_finish(&identity);
}

/* --- rights ----------------------------------------------------------------------------------- */

struct guarded {
    char path[4096];
};

static void create_file(struct guarded *file, mode_t mode, gid_t group) {
    int fd = mkstemp(temporary_template(file->path, sizeof file->path));
    char *slash = strrchr(file->path, '/');
    CHECK(fd >= 0 && fchown(fd, 0, group) == 0 && fchmod(fd, mode) == 0);
    close(fd);
    *slash = 0; /* the folder must not be the obstacle */
    CHECK(chmod(file->path, 0755) == 0);
    *slash = '/';
}

static bool is_readable(const struct guarded *file) {
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static const struct process_identity gone_user = {.pidfd = -1,
                                                  .ids = {{USER, USER, USER}, {USER, USER, USER}}};

TEST(files_are_opened_with_the_rights_of_the_target_until_they_are_dropped) {
    require_root();
    struct guarded secret, open_to_all;
    create_file(&secret, 0600, 0);
    create_file(&open_to_all, 0644, 0);
    CHECK(process_rights_take(&gone_user));
    CHECK(!is_readable(&secret) && is_readable(&open_to_all));
    process_rights_pause();
    CHECK(is_readable(&secret));
    CHECK(process_rights_resume());
    CHECK(!is_readable(&secret));
    process_rights_drop();
    CHECK(is_readable(&secret));
    process_rights_pause(); /* without effect */
    CHECK(process_rights_resume());
    CHECK(is_readable(&secret));
}

TEST(a_targets_groups_count_while_it_lives) {
    require_root();
    struct guarded of_group;
    struct peer peer;
    struct process_identity identity;
    int own_groups = getgroups(0, NULL);
    create_file(&of_group, 0640, GROUP);
    start_peer(&peer, USER, GROUP);
    CHECK(process_identity_of_peer(peer.socket, &identity));
    CHECK(process_rights_take(&identity)); /* it connected as root: its present ids count */
    CHECK(is_readable(&of_group));
    process_rights_drop();
    CHECK(process_rights_take(&gone_user));
    CHECK(!is_readable(&of_group));
    process_rights_drop();
    CHECK_INT(getgroups(0, NULL), ==, own_groups);
    kill_peer(&peer);
    process_identity_finish(&identity);
    finish_peer(&peer);
}

TEST(a_target_that_has_become_root_gets_the_rights_with_which_it_connected) {
    require_root();
    struct guarded secret;
    struct process_identity identity;
    create_file(&secret, 0600, 0);
    process_identity_of_self(&identity); /* this process is root ... */
    identity.ids = gone_user.ids;        /* ... but connected as a user */
    CHECK(process_rights_take(&identity));
    CHECK(!is_readable(&secret));
    process_rights_drop();
}

TEST(roots_own_targets_are_read_with_roots_rights) {
    require_root();
    struct guarded secret;
    struct process_identity identity;
    create_file(&secret, 0600, 0);
    process_identity_of_self(&identity);
    CHECK(process_rights_take(&identity));
    CHECK(is_readable(&secret));
    process_rights_drop();
}

struct reader {
    const struct guarded *file;
    int go; /* a pipe that closes when the thread may begin */
    bool could_read;
};

static void *read_file(void *context) {
    struct reader *reader = context;
    char byte;
    (void)!read(reader->go, &byte, 1);
    reader->could_read = is_readable(reader->file);
    return NULL;
}

TEST(other_threads_keep_their_rights) {
    require_root();
    struct guarded secret;
    int ends[2];
    pthread_t thread;
    create_file(&secret, 0600, 0);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    struct reader reader = {&secret, ends[0], false};
    CHECK(pthread_create(&thread, NULL, read_file, &reader) == 0);
    CHECK(process_rights_take(&gone_user));
    CHECK(close(ends[1]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!is_readable(&secret));
    process_rights_drop();
    CHECK(reader.could_read);
    close(ends[0]);
}
