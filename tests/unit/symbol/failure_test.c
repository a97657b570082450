/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that fail: the reported reason, and when the run is repeated. The worker is a script that
 * counts its runs, and either fails as the test wants or executes the real worker. */
#include "service/symbol/files/failure.h"

#include "service/symbol/files/files.h"
#include "service/symbol/worker/worker.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* `symbols` and `lines` are the commands that the script runs for that kind of table. */
static void make_worker(const char *names, const char *full) {
    char text[2048];
    snprintf(text, sizeof text,
             "#!/bin/sh\necho x >> %s\ncase $2 in symbols) %s;; *) %s;; esac\nexec %s \"$@\"\n",
             fixture_path("starts"), names, full, corpus_worker());
    fixture_write("worker.sh", text);
    CHECK_INT(fixture_run("chmod 700 worker.sh; rm -f starts"), ==, 0);
}

static int starts(void) {
    return atoi(fixture_line("wc -l < starts"));
}

static struct symbol_store *open_store(void) {
    struct symbol_options options = {.cache_dir = fixture_path("cache"),
                                     .debug_roots = fixture_path("nothing"),
                                     .worker = fixture_path("worker.sh")};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    return store;
}

static void compile(void) {
    fixture_write("planted.c", "__attribute__((noinline)) int planted(int x) { return x + 1; }\n"
                               "int main(int argc, char **argv) { return planted(argc); }\n");
    fixture_must("gcc", "rm -rf cache && gcc -g -O1 -no-pie planted.c -o planted");
}

static struct symbol_answer ask(struct symbol_store *store, struct sonde_arena *arena,
                                struct symbol_module *module) {
    struct symbol_query query = {.module = module,
                                 .vaddr = fixture_nm(fixture_path("planted"), "planted")};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, arena, &answer), ==, SONDE_OK);
    return answer;
}

/* Resolves with a module of its own, like a request whose file no other request uses. */
static enum symbol_quality quality(struct symbol_store *store) {
    struct sonde_arena arena = {0};
    struct symbol_module *module = fixture_module(store, fixture_path("planted"));
    struct symbol_answer answer = ask(store, &arena, module);
    enum symbol_quality got = answer.frame_count ? answer.quality : SYMBOL_NONE;
    symbol_module_release(module);
    sonde_arena_finish(&arena);
    return got;
}

/* The only entry of the list. */
static struct symbol_file listed(struct symbol_store *store) {
    struct symbol_file *files, file;
    size_t count;
    CHECK_INT(symbol_files_list(store, &files, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    file = files[0];
    free(files);
    return file;
}

TEST(s14_a_worker_that_dies_costs_its_names_and_is_not_run_for_every_request) {
    compile();
    make_worker("kill -SEGV $$", "kill -SEGV $$");
    struct symbol_store *store = open_store();
    CHECK_INT(quality(store), ==, SYMBOL_NONE);
    CHECK_INT(starts(), ==, 2); /* one run for symbols, one for lines */
    CHECK_INT(quality(store), ==, SYMBOL_NONE);
    CHECK_INT(quality(store), ==, SYMBOL_NONE);
    CHECK_INT(starts(), ==, 2);
    struct symbol_file file = listed(store);
    CHECK_INT(file.state, ==, SYMBOL_FILE_FAILED);
    CHECK_STR(file.reason, "CONVERSION_FAILED");
    CHECK(strstr(file.detail, "signal 11"));
    symbol_store_destroy(store);
    store = open_store(); /* the next service does not repeat it either */
    CHECK_INT(quality(store), ==, SYMBOL_NONE);
    CHECK_INT(starts(), ==, 2);
    symbol_store_destroy(store);
}

TEST(a_failed_conversion_keeps_its_reason_and_the_names) {
    compile();
    make_worker("true", "exit 12");
    struct symbol_store *store = open_store();
    struct symbol_module *module = fixture_module(store, fixture_path("planted"));
    struct sonde_arena arena = {0};
    struct symbol_answer answer = ask(store, &arena, module);
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES);
    CHECK_STR(answer.frames[0].name, "planted");
    CHECK_STR(symbol_module_shortfall(module), "CONVERSION_FAILED");
    struct symbol_file file = listed(store);
    CHECK_INT(file.state, ==, SYMBOL_FILE_FAILED);
    CHECK(strstr(file.detail, "memory"));
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

/* A file with compressed debug information, which is larger than `small_disk` when decompressed. */
static void compile_large(void) {
    compile();
    fixture_must("gcc",
                 "for i in $(seq 8000); do "
                 "echo \"int a_function_with_a_long_name_$i(int x) { return x + $i; }\"; done "
                 "> many.c && gcc -g -O0 -gz=zlib -no-pie planted.c many.c -o planted");
}

/* Mounted in a namespace of this process, so that it disappears with the process. */
static void small_disk(void) {
    CHECK_INT(fixture_run("mkdir cache"), ==, 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", "", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", fixture_path("cache"), "tmpfs", 0, "size=256k,mode=700") != 0)
        check_skip("mounting is not allowed here");
}

TEST(a_full_disk_is_reported_and_crashes_nothing) {
    char sentence[SYMBOL_SENTENCE];
    compile_large();
    make_worker("true", "true");
    small_disk();
    struct symbol_store *store = open_store();
    struct symbol_module *module = fixture_module(store, fixture_path("planted"));
    struct sonde_arena arena = {0};
    struct symbol_answer answer = ask(store, &arena, module);
    CHECK_INT(answer.quality, ==, SYMBOL_NAMES); /* the symbol table is in memory then */
    CHECK(symbol_module_failure(module, sentence));
    CHECK(strstr(sentence, "no space left in the data directory"));
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    CHECK_INT(umount(fixture_path("cache")), ==, 0);
}

TEST(a_failed_conversion_is_repeated_when_the_file_or_the_worker_has_changed) {
    compile();
    make_worker("true", "exit 11");
    struct symbol_store *store = open_store();
    CHECK_INT(quality(store), ==, SYMBOL_NAMES);
    CHECK_INT(starts(), ==, 2);
    CHECK_INT(fixture_run("cp -p planted copy && mv copy planted"), ==, 0); /* another inode */
    CHECK_INT(quality(store), ==, SYMBOL_NAMES);
    CHECK_INT(starts(), ==, 3);
    CHECK_INT(quality(store), ==, SYMBOL_NAMES);
    CHECK_INT(starts(), ==, 3);
    make_worker("true", "true");
    CHECK_INT(quality(store), ==, SYMBOL_FULL);
    CHECK_STR(listed(store).detail, "");
    CHECK_INT(listed(store).state, ==, SYMBOL_FILE_READY);
    symbol_store_destroy(store);
}

TEST(a_failed_conversion_is_repeated_after_an_eviction) {
    compile();
    make_worker("true", "test -e good || exit 11");
    struct symbol_store *store = open_store();
    struct symbol_module *module = fixture_module(store, fixture_path("planted"));
    struct sonde_arena arena = {0};
    struct symbol_evicted evicted;
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_NAMES);
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_NAMES);
    CHECK_INT(starts(), ==, 2);
    CHECK_INT(symbol_files_evict(store, NULL, false, &evicted, NULL), ==, SONDE_OK);
    CHECK_INT(ask(store, &arena, module).quality, ==, SYMBOL_NAMES);
    CHECK_INT(starts(), ==, 3); /* the symbol table is still mapped */
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(a_failure_counts_for_an_hour_and_for_the_same_files) {
    struct symbol_failure failure = {
        .cause = SYMBOL_FAILURE_BROKEN, .unix_s = time(NULL) - 60, .subject = 7};
    CHECK(symbol_failure_stands(&failure, 7));
    CHECK(!symbol_failure_stands(&failure, 8));
    failure.unix_s = time(NULL) - SYMBOL_FAILURE_RETRY_S - 1;
    CHECK(!symbol_failure_stands(&failure, 7));
    failure.unix_s = time(NULL) + 1000; /* the clock was set back */
    CHECK(!symbol_failure_stands(&failure, 7));
    CHECK(!symbol_failure_stands(&(struct symbol_failure){0}, 0));
}

/* Statuses as from waitpid: an exit code, or a signal. */
#define EXITED(code)   ((code) << 8)
#define KILLED(number) (number)

TEST(each_end_of_a_worker_has_its_cause_and_its_sentence) {
    static const struct {
        int status;
        uint64_t cpu_ms;
        bool was_late;
        enum symbol_failure_cause cause;
        const char *word;
    } rows[] = {
        {EXITED(SYMBOL_WORKER_MEMORY), 0, false, SYMBOL_FAILURE_MEMORY, "memory"},
        {KILLED(SIGKILL), 10, false, SYMBOL_FAILURE_MEMORY, "memory"},
        {KILLED(SIGKILL), 10, true, SYMBOL_FAILURE_TIME, "time"},
        {KILLED(SIGKILL), 299500, false, SYMBOL_FAILURE_TIME, "time"},
        {KILLED(SIGXCPU), 0, false, SYMBOL_FAILURE_TIME, "time"},
        {KILLED(SIGSEGV), 0, false, SYMBOL_FAILURE_CRASHED, "signal 11"},
        {KILLED(SIGBUS), 0, false, SYMBOL_FAILURE_CRASHED, "signal 7"},
        {EXITED(SYMBOL_WORKER_BROKEN), 0, false, SYMBOL_FAILURE_BROKEN, "damaged"},
        {EXITED(SYMBOL_WORKER_DONE), 0, false, SYMBOL_FAILURE_BROKEN, "damaged"},
        {EXITED(SYMBOL_WORKER_IO), 0, false, SYMBOL_FAILURE_IO, "cannot write"},
        {KILLED(SIGXFSZ), 0, false, SYMBOL_FAILURE_IO, "cannot write"},
        {EXITED(SYMBOL_WORKER_CONFINED), 0, false, SYMBOL_FAILURE_CONFINED, "privileges"},
        {EXITED(127), 0, false, SYMBOL_FAILURE_NOT_STARTED, "cannot start"},
        {EXITED(SYMBOL_WORKER_NO_SPACE), 0, false, SYMBOL_FAILURE_NO_SPACE, "no space left"},
    };
    char text[SYMBOL_FAILURE_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct symbol_failure failure =
            symbol_failure_of(rows[i].status, rows[i].cpu_ms, rows[i].was_late);
        symbol_failure_text(&failure, text);
        CHECK_INT(failure.cause, ==, rows[i].cause);
        CHECK(strstr(text, rows[i].word));
    }
}

TEST(a_saved_failure_that_is_damaged_is_ignored) {
    static const char *const texts[] = {"", "x", "1", "99 0 5 5\n", "-1 0 5 5\n", "0 0 5 5\n"};
    struct symbol_cache cache;
    struct symbol_failure failure;
    CHECK_INT(fixture_run("rm -rf kept && mkdir -m 700 kept"), ==, 0);
    CHECK_INT(symbol_cache_init(&cache, fixture_path("kept"), 0, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture_write("kept/id.lines-failed", texts[i]);
        CHECK(!symbol_failure_find(&cache, "id", "lines", &failure));
    }
    failure = (struct symbol_failure){SYMBOL_FAILURE_TIME, 9, 1234567890123, UINT64_MAX};
    symbol_failure_save(&cache, "id", "lines", &failure);
    struct symbol_failure found;
    CHECK(symbol_failure_find(&cache, "id", "lines", &found));
    CHECK(memcmp(&found, &failure, sizeof found) == 0);
    symbol_failure_forget(&cache, "id", "lines");
    CHECK(!symbol_failure_find(&cache, "id", "lines", &found));
    symbol_cache_finish(&cache);
}

TEST(without_a_worker_the_service_reads_symbols_itself) {
    compile();
    CHECK_INT(fixture_run("rm -f worker.sh"), ==, 0);
    struct symbol_store *store = open_store();
    CHECK_INT(quality(store), ==, SYMBOL_NAMES);
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    symbol_store_destroy(store);
}

TEST(s14_truncated_files_cost_a_worker_at_most) {
    compile();
    make_worker("true", "true");
    static const int shares[] = {1, 2, 10, 30, 50, 70, 90, 99};
    uint64_t planted = fixture_nm(fixture_path("planted"), "planted");
    struct symbol_store *store = open_store();
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        CHECK_INT(fixture_run("head -c $(($(stat -c %%s planted) * %d / 100)) planted > cut%d",
                              shares[i], shares[i]),
                  ==, 0);
        struct fixture_answer answer =
            fixture_name_in(store, fixture_path("cut%d", shares[i]), planted);
        CHECK(answer.frame_count == 0 || strcmp(answer.name, "planted") == 0);
    }
    CHECK_INT(quality(store), ==, SYMBOL_FULL); /* the service still works */
    symbol_store_destroy(store);
}

/* Bits of the ELF header, the symbols and their names, and of the section headers, which are the
 * last bytes of the file. */
TEST(s14_flipped_bits_cost_a_worker_at_most) {
    compile();
    make_worker("true", "true");
    fixture_write("flip.py",
                  "import random, sys\n"
                  "data = bytearray(open('planted', 'rb').read())\n"
                  "dice = random.Random(int(sys.argv[1]))\n"
                  "places = (0, 64, 512), (len(data) - 2400, len(data), 0)\n"
                  "for low, high, more in places:\n"
                  "    for _ in range(3):\n"
                  "        data[dice.randrange(low, high + more)] ^= 1 << dice.randrange(8)\n"
                  "open('flipped' + sys.argv[1], 'wb').write(data)\n");
    uint64_t planted = fixture_nm(fixture_path("planted"), "planted");
    struct symbol_store *store = open_store();
    fixture_must("/usr/bin/python3", "true");
    for (int seed = 1; seed <= 25; seed++) {
        CHECK_INT(fixture_run("/usr/bin/python3 flip.py %d", seed), ==, 0);
        struct symbol_module *module = NULL;
        struct symbol_mapping mapping = {.path = fixture_path("flipped%d", seed)};
        struct stat info;
        CHECK_INT(stat(mapping.path, &info), ==, 0);
        mapping.end = (uint64_t)info.st_size;
        mapping.inode = info.st_ino;
        mapping.device_major = major(info.st_dev);
        mapping.device_minor = minor(info.st_dev);
        CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
        struct sonde_arena arena = {0};
        struct symbol_query query = {.module = module, .vaddr = planted};
        struct symbol_answer answer;
        CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, &arena, &answer), ==, SONDE_OK);
        sonde_arena_finish(&arena);
        symbol_module_release(module);
    }
    CHECK_INT(quality(store), ==, SYMBOL_FULL); /* the service still works */
    symbol_store_destroy(store);
}
