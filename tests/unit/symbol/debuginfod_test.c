/* SPDX-License-Identifier: Apache-2.0
 *
 * Debug files from debuginfod servers on this machine: an HTTP server that logs its requests, and
 * Debian's debuginfod. */
#include "service/symbol/debuginfod/debuginfod.h"

#include "service/symbol/files/files.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Serves the directory "served", prints its port, and writes a line per request to "asked". */
static const char server[] =
    "import http.server, os, time\n"
    "os.makedirs('served', exist_ok=True)\n"
    "asked = open('asked', 'w', buffering=1)\n"
    "class Handler(http.server.SimpleHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        asked.write(self.path + '\\n')\n"
    "        if self.path.startswith('/away'):\n"
    "            self.send_response(302)\n"
    "            self.send_header('Location', 'file:///etc/passwd')\n"
    "            self.end_headers()\n"
    "        elif self.path.startswith('/circle'):\n"
    "            self.send_response(302)\n"
    "            self.send_header('Location', self.path)\n"
    "            self.end_headers()\n"
    "        elif self.path.startswith('/large'):\n"
    "            self.send_response(200)\n"
    "            self.send_header('Content-Length', str(3 << 30))\n"
    "            self.end_headers()\n"
    "        elif self.path.startswith('/broken'):\n"
    "            self.send_error(500)\n"
    "        elif self.path.startswith('/slow'):\n"
    "            time.sleep(1000)\n"
    "        else:\n"
    "            super().do_GET()\n"
    "    def log_message(self, *words):\n"
    "        pass\n"
    "here = lambda *words, **more: Handler(*words, directory='served', **more)\n"
    "http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), here)\n"
    "print('port', hex(http.server_port))\n"
    "print('ready', flush=True)\n"
    "import sys, threading\n"
    "threading.Thread(target=http.serve_forever, daemon=True).start()\n"
    "sys.stdin.read()\n";

static struct fixture_process process;
static unsigned port;

static void start_server(void) {
    fixture_write("server.py", server);
    fixture_write("server.sh",
                  "#!/bin/sh\ncd \"$(dirname \"$0\")\" && exec /usr/bin/python3 server.py\n");
    fixture_must("/usr/bin/python3", "rm -rf served asked && chmod 700 server.sh");
    fixture_start(&process, fixture_path("server.sh"), NULL);
    port = (unsigned)fixture_address(&process, "port ");
    CHECK(port > 0);
}

static int asked(void) {
    return atoi(fixture_line("wc -l < asked"));
}

/* A stripped program; its debug file is served unless `absent`. */
static void compile(bool absent) {
    fixture_write("planted.c", "static inline __attribute__((always_inline)) int twice(int x) {\n"
                               "    volatile int y = x;\n"
                               "    return y * 2;\n"
                               "}\n"
                               "__attribute__((noinline)) int planted(int x) {\n"
                               "    return twice(x) + 1;\n"
                               "}\n"
                               "int main(int argc, char **argv) { return planted(argc); }\n");
    fixture_must("gcc", "rm -rf cache && gcc -g -O1 -no-pie -Wl,--build-id=0xabcdef0123456789 "
                        "planted.c -o full && objcopy --only-keep-debug full part && "
                        "strip -o bare full && mkdir -p served/buildid/abcdef0123456789");
    if (!absent)
        CHECK_INT(fixture_run("cp part served/buildid/abcdef0123456789/debuginfo"), ==, 0);
}

static struct symbol_store *open_store(const char *urls) {
    struct symbol_options options = {.cache_dir = fixture_path("cache"),
                                     .debug_roots = fixture_path("nothing"),
                                     .worker = corpus_worker(),
                                     .debuginfod = urls};
    struct symbol_store *store;
    struct sonde_diag diag = {0};
    if (symbol_store_create(&options, &store, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}

static const char *url(const char *path) {
    static char text[4][128];
    static unsigned next;
    char *out = text[next++ % 4];
    snprintf(out, 128, "http://127.0.0.1:%u%s", port, path);
    return out;
}

static struct symbol_answer ask(struct symbol_store *store, struct sonde_arena *arena,
                                struct symbol_module *module) {
    struct symbol_query query = {.module = module,
                                 .vaddr = fixture_nm(fixture_path("full"), "planted")};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, arena, &answer), ==, SONDE_OK);
    return answer;
}

/* Waits until no fetch for the module is in progress. */
static void await_fetch(struct symbol_module *module) {
    for (int i = 0; i < 2000 && symbol_module_shortfall(module) == symbol_fetching; i++)
        usleep(10000);
    CHECK(symbol_module_shortfall(module) != symbol_fetching);
}

TEST(a_missing_debug_file_is_fetched_in_the_background_and_stored_as_an_upload) {
    start_server();
    compile(false);
    struct symbol_store *store = open_store(url("/"));
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    CHECK_INT(ask(store, &arena, module).frame_count, ==, 0); /* answered at once, without a name */
    await_fetch(module);
    struct symbol_answer answer = ask(store, &arena, module);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_INT(answer.frame_count, ==, 2);
    CHECK_STR(answer.frames[0].name, "twice");
    CHECK_INT(asked(), ==, 1);
    CHECK_INT(fixture_run("cmp part cache/uploads/.build-id/ab/cdef0123456789.debug"), ==, 0);
    symbol_module_release(module);
    symbol_store_destroy(store);

    CHECK_INT(fixture_run("rm cache/*"), !=, -1);
    store = open_store(url("/")); /* the next service has it already */
    module = fixture_module(store, fixture_path("bare"));
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_FULL);
    CHECK_INT(asked(), ==, 1);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(without_named_servers_no_request_is_made) {
    struct symbol_store *store;
    start_server();
    compile(false);
    setenv("DEBUGINFOD_URLS", url("/"), 1);
    store = open_store(NULL);
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    CHECK(symbol_module_shortfall(module) != symbol_fetching);
    usleep(200000);
    CHECK_INT(asked(), ==, 0);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
    unsetenv("DEBUGINFOD_URLS");
}

TEST(a_build_id_that_no_server_has_is_requested_once) {
    start_server();
    compile(true);
    struct symbol_store *store = open_store(url(""));
    struct sonde_arena arena = {0};
    for (int i = 0; i < 3; i++) {
        struct symbol_module *module = fixture_module(store, fixture_path("bare"));
        (void)ask(store, &arena, module);
        await_fetch(module);
        symbol_module_release(module);
    }
    CHECK_INT(asked(), ==, 1);
    sonde_arena_finish(&arena);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_file_with_another_build_id_is_discarded) {
    start_server();
    compile(true);
    CHECK_INT(fixture_run("gcc -g -no-pie -Wl,--build-id=0x1234567890 planted.c -o other && "
                          "cp other served/buildid/abcdef0123456789/debuginfo"),
              ==, 0);
    struct symbol_store *store = open_store(url(""));
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    await_fetch(module);
    CHECK_INT(ask(store, &arena, module).frame_count, ==, 0);
    CHECK_INT(fixture_run("find cache/uploads -name '*.debug' | grep -q ."), !=, 0);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_second_server_is_asked_when_the_first_fails) {
    char urls[300];
    start_server();
    compile(true);
    CHECK_INT(fixture_run("mkdir -p served/good && mv served/buildid served/good/ && "
                          "cp part served/good/buildid/abcdef0123456789/debuginfo"),
              ==, 0);
    snprintf(urls, sizeof urls, "%s %s %s", url("/away"), url("/broken"), url("/good"));
    struct symbol_store *store = open_store(urls);
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    await_fetch(module);
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_FULL);
    CHECK_INT(asked(), ==, 3);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_redirect_in_a_circle_is_followed_five_times) {
    start_server();
    compile(true);
    struct symbol_store *store = open_store(url("/circle"));
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    await_fetch(module);
    CHECK_INT(asked(), ==, 1 + 5);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_file_that_is_too_large_is_not_fetched_and_its_server_is_not_paused) {
    static const char *const ids[] = {"aa01", "aa02", "aa03"};
    start_server();
    compile(true);
    struct symbol_store *store = open_store(url("/large"));
    struct symbol_module *module;
    struct sonde_arena arena = {0};
    CHECK_INT(sizeof ids / sizeof *ids, ==, SYMBOL_FETCH_PAUSE_AFTER);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        CHECK_INT(symbol_module_find(store, ids[i], &module, NULL), ==, SONDE_NOT_FOUND);
    module = fixture_module(store, fixture_path("bare"));
    (void)ask(store, &arena, module);
    await_fetch(module); /* the last in the queue */
    CHECK_INT(asked(), ==, SYMBOL_FETCH_PAUSE_AFTER + 1);
    CHECK_INT(ask(store, &arena, module).frame_count, ==, 0);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_server_that_fails_three_times_is_paused) {
    start_server();
    compile(true);
    struct symbol_store *store = open_store(url("/broken"));
    static const char *const ids[] = {"aa01", "aa02", "aa03", "aa04", "aa05"};
    for (size_t i = 0; i < 5; i++) {
        struct symbol_module *module;
        CHECK_INT(symbol_module_find(store, ids[i], &module, NULL), ==, SONDE_NOT_FOUND);
    }
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    await_fetch(module); /* the last in the queue */
    CHECK_INT(asked(), ==, SYMBOL_FETCH_PAUSE_AFTER);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_store_ends_while_a_server_does_not_answer) {
    start_server();
    compile(true);
    struct symbol_store *store = open_store(url("/slow"));
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    for (int i = 0; i < 1000 && asked() == 0; i++)
        usleep(10000);
    CHECK_INT(asked(), ==, 1);
    CHECK(symbol_module_shortfall(module) == symbol_fetching);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(a_url_that_is_not_http_is_refused) {
    static const char *const bad[] = {"ftp://x", "file:///etc", "nonsense", "http://a x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct symbol_options options = {
            .cache_dir = fixture_path("cache"), .worker = corpus_worker(), .debuginfod = bad[i]};
        struct symbol_store *store;
        struct sonde_diag diag = {0};
        CHECK_INT(symbol_store_create(&options, &store, &diag), ==, SONDE_INVALID_ARGUMENT);
        CHECK(strstr(diag.text, "debuginfod"));
    }
}

TEST(debians_debuginfod_serves_what_it_has_indexed) {
    fixture_must("debuginfod", "true");
    compile(true);
    fixture_write("debuginfod.sh",
                  "#!/bin/sh\ncd \"$(dirname \"$0\")\" && mkdir -p files && cp part files/\n"
                  "for try in 1 2 3 4 5; do\n"
                  "  port=$((20000 + ($$ * 7 + try * 131) % 20000))\n"
                  "  debuginfod -F -d :memory: -p $port files >log 2>&1 & pid=$!\n"
                  "  for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n"
                  "    curl -sf -o /dev/null --noproxy '*' "
                  "http://127.0.0.1:$port/buildid/abcdef0123456789/debuginfo && break 2\n"
                  "    kill -0 $pid 2>/dev/null || break\n"
                  "    sleep 0.25\n"
                  "  done\n"
                  "  kill $pid 2>/dev/null\n"
                  "done\n"
                  "printf 'port 0x%x\\nready\\n' $port\n"
                  "read line; kill $pid\n");
    CHECK_INT(fixture_run("chmod 700 debuginfod.sh"), ==, 0);
    fixture_start(&process, fixture_path("debuginfod.sh"), NULL);
    port = (unsigned)fixture_address(&process, "port ");
    struct symbol_store *store = open_store(url(""));
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    struct sonde_arena arena = {0};
    (void)ask(store, &arena, module);
    await_fetch(module);
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_FULL);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    fixture_stop(&process);
}
