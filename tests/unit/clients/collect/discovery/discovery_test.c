/* SPDX-License-Identifier: Apache-2.0
 *
 * Real files, a real HTTP server and the machine's resolver. */
#include "clients/collect/discovery/discovery.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char current[8192]; /* "NAME{KEY=VALUE} ..." of the last change */
static size_t current_count;
static int changes;
static char logged[4096];
static char folder[200], file[256];
static struct discovery *discovery;

static void on_change(void *context, const struct discovered_hosts *hosts) {
    size_t len = 0;
    pthread_mutex_lock(&lock);
    current[0] = 0;
    for (size_t i = 0; i < hosts->count && len < sizeof current - 1100; i++) {
        const struct discovered_host *host = &hosts->hosts[i];
        len += (size_t)sprintf(current + len, "%s%s", i ? " " : "", host->name);
        for (size_t j = 0; j < host->label_count; j++)
            len += (size_t)sprintf(current + len, "{%s=%s}", host->labels[j].name,
                                   host->labels[j].value);
    }
    current_count = hosts->count;
    changes++;
    pthread_mutex_unlock(&lock);
}

static void on_log(const char *line) {
    pthread_mutex_lock(&lock);
    if (strlen(logged) + strlen(line) + 2 < sizeof logged)
        strcat(strcat(logged, line), "\n");
    pthread_mutex_unlock(&lock);
}

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    CHECK(out);
    fputs(text, out);
    fclose(out);
}

static void make_folder(const char *text) {
    changes = 0;
    logged[0] = current[0] = 0;
    CHECK(mkdtemp(temporary_template(folder, sizeof folder)));
    snprintf(file, sizeof file, "%s/hosts.txt", folder);
    if (text)
        write_text(file, text);
}

static sonde_err try_start(const char *one, const char *two, struct sonde_diag *diag) {
    const char *const sources[] = {one, two};
    *diag = (struct sonde_diag){0};
    return discovery_start(sources, two ? 2 : 1, on_change, NULL, on_log, &discovery, diag);
}

static int change_count(void) {
    pthread_mutex_lock(&lock);
    int count = changes;
    pthread_mutex_unlock(&lock);
    return count;
}

static void start(const char *one, const char *two) {
    struct sonde_diag diag;
    sonde_err err = try_start(one, two, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(change_count(), ==, 1);
}

static bool is_current(const char *expected) {
    pthread_mutex_lock(&lock);
    bool is_equal = strcmp(current, expected) == 0;
    pthread_mutex_unlock(&lock);
    return is_equal;
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Waits until the last change is as expected. */
static void wait_for(const char *expected) {
    for (int i = 0; i < 4000 && !is_current(expected); i++)
        sleep_ms(5);
    pthread_mutex_lock(&lock);
    char text[8192];
    strcpy(text, current);
    pthread_mutex_unlock(&lock);
    CHECK_STR(text, expected);
}

static const struct discovery_source *source_state(size_t number) {
    static struct discovery_source sources[2];
    CHECK_INT(discovery_sources(discovery, sources, 2), >, number);
    return &sources[number];
}

static void wait_for_trouble(size_t source, const char *expected) {
    for (int i = 0; i < 4000 && !strstr(source_state(source)->trouble, expected); i++)
        sleep_ms(5);
    if (!strstr(source_state(source)->trouble, expected))
        check_fail(__FILE__, __LINE__, "\"%s\", not \"%s\"", source_state(source)->trouble,
                   expected);
}

TEST(discovery_reads_a_file_before_it_returns) {
    make_folder("b:1\na:1 zone=x\n");
    start(file, NULL);
    CHECK_STR(current, "a:1{zone=x} b:1");
    CHECK_INT(source_state(0)->hosts, ==, 2);
    CHECK(source_state(0)->unix_ns > 0);
    CHECK_STR(source_state(0)->trouble, "");
    CHECK(strncmp(source_state(0)->name, "file /", 6) == 0);
    discovery_stop(discovery);
}

TEST(discovery_sees_a_file_that_is_written_in_place) {
    make_folder("a:1\nb:1\n");
    start(file, NULL);
    write_text(file, "a:1\n");
    wait_for("a:1");
    write_text(file, "a:1\nc:1\n");
    wait_for("a:1 c:1");
    discovery_stop(discovery);
}

TEST(discovery_sees_a_file_that_an_editor_renames) {
    char other[300];
    make_folder("a:1\nb:1\n");
    start(file, NULL);
    snprintf(other, sizeof other, "%s/.hosts.swp", folder);
    for (int i = 0; i < 5; i++) {
        write_text(other, i % 2 ? "a:1\nb:1\n" : "b:1\n");
        CHECK_INT(rename(other, file), ==, 0);
        wait_for(i % 2 ? "a:1 b:1" : "b:1");
    }
    discovery_stop(discovery);
}

/* As Kubernetes updates a volume of a ConfigMap: no event names the file. */
TEST(discovery_sees_a_link_that_is_switched) {
    char link[300], new_link[300], one[300], two[300];
    make_folder(NULL);
    snprintf(one, sizeof one, "%s/1", folder);
    snprintf(two, sizeof two, "%s/2", folder);
    snprintf(link, sizeof link, "%s/data", folder);
    snprintf(new_link, sizeof new_link, "%s/new", folder);
    mkdir(one, 0700);
    mkdir(two, 0700);
    CHECK_INT(symlink(one, link), ==, 0);
    CHECK_INT(symlink("data/hosts", file), ==, 0);
    write_text(strcat(one, "/hosts"), "a:1\n");
    CHECK_INT(symlink(two, new_link), ==, 0);
    write_text(strcat(two, "/hosts"), "b:1\n");
    start(file, NULL);
    CHECK_STR(current, "a:1");
    CHECK_INT(rename(new_link, link), ==, 0);
    wait_for("b:1");
    discovery_stop(discovery);
}

TEST(discovery_reports_only_lists_that_differ) {
    make_folder("a:1\n");
    start(file, NULL);
    write_text(file, "# the same host\na:1\n");
    write_text(file, "a:1 zone=x\n");
    wait_for("a:1{zone=x}");
    CHECK_INT(change_count(), ==, 2);
    write_text(file, "a:1 zone=y\n");
    wait_for("a:1{zone=y}");
    CHECK_INT(change_count(), ==, 3);
    discovery_stop(discovery);
}

TEST(discovery_keeps_the_last_list_of_a_file_that_is_wrong_empty_or_gone) {
    make_folder("a:1\n");
    start(file, NULL);
    write_text(file, "b:1\nnonsense\n");
    wait_for_trouble(0, "hosts.txt:2: \"nonsense\": the port is missing");
    write_text(file, "");
    wait_for_trouble(0, "is empty");
    CHECK_INT(unlink(file), ==, 0);
    wait_for_trouble(0, "No such file");
    CHECK_INT(source_state(0)->hosts, ==, 1);
    CHECK_INT(change_count(), ==, 1);
    write_text(file, "b:1\n");
    wait_for("b:1");
    wait_for_trouble(0, "");
    CHECK_STR(source_state(0)->trouble, "");
    CHECK(strstr(logged, "\"nonsense\""));
    discovery_stop(discovery);
}

TEST(discovery_start_refuses_files_that_are_missing_or_wrong) {
    struct sonde_diag diag;
    make_folder("a\n");
    CHECK_INT(try_start(file, NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "hosts.txt:1: \"a\": the port is missing"));
    CHECK(discovery == NULL);
    unlink(file);
    CHECK_INT(try_start(file, NULL, &diag), ==, SONDE_IO);
    CHECK(strstr(diag.text, "No such file"));
    CHECK_INT(try_start(folder, NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "is not a regular file"));
    CHECK_INT(mkfifo(file, 0600), ==, 0);
    CHECK_INT(try_start(file, NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(change_count(), ==, 0);
}

TEST(discovery_start_refuses_sources_that_are_malformed) {
    static const char *const wrong[] = {
        "",
        "dns:",
        "dns:name",
        "dns::5",
        "dns:name:0",
        "dns:name:99999",
        "dns:a b:1",
        "ftp://host/x",
        "http://",
        "https:///x",
        "http://user:secret@/x",
    };
    struct sonde_diag diag;
    make_folder(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_INT(try_start(wrong[i], NULL, &diag), ==, SONDE_INVALID_ARGUMENT);
        CHECK(strstr(diag.text, "write "));
        CHECK(!strstr(diag.text, "secret"));
    }
    const char *many[DISCOVERY_MAX_SOURCES + 1] = {"dns:a:1"};
    CHECK_INT(discovery_start(many, DISCOVERY_MAX_SOURCES + 1, on_change, NULL, on_log, &discovery,
                              &diag),
              ==, SONDE_INVALID_ARGUMENT);
}

TEST(discovery_refuses_a_file_that_is_too_large) {
    struct sonde_diag diag;
    make_folder("a:1\n");
    CHECK_INT(truncate(file, 33 << 20), ==, 0);
    CHECK_INT(try_start(file, NULL, &diag), ==, SONDE_TOO_LARGE);
}

TEST(discovery_joins_sources_and_counts_an_address_once) {
    char other[300];
    make_folder("a:1 zone=1\nb:1 name=x\n");
    snprintf(other, sizeof other, "%s/other.json", folder);
    write_text(other, "[{\"targets\": [\"a:1\", \"c:1\"], \"labels\": {\"zone\": \"2\"}},"
                      "{\"targets\": [\"d:1\"], \"labels\": {\"__sonde_name\": \"x\"}}]");
    start(file, other);
    CHECK_STR(current, "a:1{zone=1} c:1{zone=2} d:1 x");
    write_text(file, "b:1 name=y\n");
    wait_for("a:1{zone=2} c:1{zone=2} x y");
    discovery_stop(discovery);
}

TEST(discovery_leaves_hosts_out_beyond_its_bound) {
    char other[300];
    struct discovery_source state;
    make_folder(NULL);
    snprintf(other, sizeof other, "%s/other", folder);
    FILE *one = fopen(file, "w"), *two = fopen(other, "w");
    for (int i = 0; i < 60000; i++) {
        fprintf(one, "a%d:1\n", i);
        fprintf(two, "%c%d:1\n", i < 10 ? 'a' : 'b', i);
    }
    fclose(one);
    fclose(two);
    start(file, other);
    CHECK_INT(current_count, ==, DISCOVERY_MAX_HOSTS);
    state = *source_state(1);
    CHECK(strstr(state.trouble, "19990 hosts are left out"));
    discovery_stop(discovery);
}

TEST(discovery_resolves_a_name) {
    make_folder(NULL);
    start("dns:localhost:20181", NULL);
    CHECK(strstr(current, "127.0.0.1:20181") || strstr(current, "[::1]:20181"));
    CHECK_STR(source_state(0)->name, "dns localhost:20181");
    discovery_stop(discovery);
}

TEST(discovery_reports_a_name_that_does_not_resolve) {
    char source[120] = "dns:", label[65];
    memset(label, 'x', 64); /* a label has at most 63 bytes, so that nobody is asked */
    label[64] = 0;
    make_folder(NULL);
    start(strcat(strcat(source, label), ".invalid:20181"), NULL);
    CHECK_STR(current, "");
    wait_for_trouble(0, "check the name and this machine's resolver");
    discovery_stop(discovery);
}

static pid_t server;

/* Returns the server's URL. */
static const char *start_server(const char *text) {
    static char url[64];
    int port = 0;
    int pipe_fds[2];
    char *const argv[] = {"python3", "tests/unit/clients/collect/discovery/server.py", file, NULL};
    make_folder(text);
    CHECK_INT(pipe(pipe_fds), ==, 0);
    server = fork();
    if (server == 0) {
        dup2(pipe_fds[1], 1);
        execv("/usr/bin/python3", argv);
        _exit(127);
    }
    close(pipe_fds[1]);
    FILE *in = fdopen(pipe_fds[0], "r");
    CHECK_INT(fscanf(in, "%d", &port), ==, 1);
    fclose(in);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    return url;
}

static void stop_server(void) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static const char *url_of(const char *base, const char *path) {
    static char url[128];
    snprintf(url, sizeof url, "%s%s", base, path);
    return url;
}

TEST(discovery_asks_an_http_server) {
    char source[160];
    const char *base = start_server("[{\"targets\": [\"a:1\"], \"labels\": {\"zone\": \"x\"}}]");
    snprintf(source, sizeof source, "http://user:secret@%s/hosts", base + 7);
    start(source, NULL);
    CHECK_STR(current, "a:1{zone=x}");
    CHECK(strncmp(source_state(0)->name, "http http://127.0.0.1:", 22) == 0);
    discovery_stop(discovery);
    stop_server();
}

TEST(discovery_follows_three_redirects) {
    const char *base = start_server("[{\"targets\": [\"a:1\"]}]");
    start(url_of(base, "/redirect/3"), NULL);
    CHECK_STR(current, "a:1");
    discovery_stop(discovery);
    changes = 0;
    start(url_of(base, "/redirect/4"), NULL);
    wait_for_trouble(0, "redirects");
    discovery_stop(discovery);
    stop_server();
}

TEST(discovery_reports_what_is_wrong_with_a_server) {
    static const struct {
        const char *path, *trouble;
    } rows[] = {{"/large", "the answer has more than 8 MiB"},
                {"/down", "503"},
                {"/to-file", "rotocol"},
                {"/hosts", "byte 3: not JSON"}};
    const char *base = start_server("not JSON");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        changes = 0;
        start(url_of(base, rows[i].path), NULL);
        wait_for_trouble(0, rows[i].trouble);
        CHECK_INT(current_count, ==, 0);
        discovery_stop(discovery);
    }
    stop_server();
    changes = 0;
    start(url_of(base, "/hosts"), NULL);
    wait_for_trouble(0, "onnect");
    discovery_stop(discovery);
}

/* Two files, and a server that never answers: the start waits for it, the files do not. */
TEST(discovery_of_files_does_not_wait_for_a_slow_server) {
    char hosts[300];
    const char *base = start_server("");
    snprintf(hosts, sizeof hosts, "%s/list", folder);
    write_text(hosts, "a:1\n");
    start(hosts, url_of(base, "/slow")); /* the first request ends after 10 s */
    wait_for_trouble(1, "did not answer in time");
    write_text(hosts, "b:1\n");
    wait_for("b:1");
    discovery_stop(discovery);
    stop_server();
}

TEST(discovery_stop_takes_null) {
    discovery_stop(NULL);
}
