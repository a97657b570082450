/* SPDX-License-Identifier: Apache-2.0
 *
 * jit-PID.dump: JIT code gets names and lines, also after the compiler has written more. The
 * process is the test itself, or node. */
#include "service/symbol/jit/jitdump.h"

#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- writing ---------------------------------------------------------------------------------- */

static struct sonde_buf file;

static void put(uint64_t value, size_t bytes) {
    sonde_buf_append(&file, &value, bytes);
}

static void begin(void) {
    sonde_buf_finish(&file);
    put(0x4a695444, 4);
    put(1, 4);
    put(40, 4);
    put(EM_X86_64, 4);
    put(0, 4);
    put((uint64_t)getpid(), 4);
    put(0, 8);
    put(0, 8);
}

static void record(uint32_t kind, size_t bytes) {
    put(kind, 4);
    put(16 + bytes, 4);
    put(file.len, 8);
}

static void load(uint64_t code, uint64_t size, uint64_t index, const char *name) {
    record(0, 40 + strlen(name) + 1 + size);
    put(1, 4);
    put(1, 4);
    put(code, 8);
    put(code, 8);
    put(size, 8);
    put(index, 8);
    sonde_buf_append(&file, name, strlen(name) + 1);
    for (uint64_t i = 0; i < size; i++)
        put(0x90, 1);
}

static void move(uint64_t from, uint64_t to, uint64_t size, uint64_t index) {
    record(1, 48);
    put(1, 4);
    put(1, 4);
    put(to, 8);
    put(from, 8);
    put(to, 8);
    put(size, 8);
    put(index, 8);
}

struct row {
    uint64_t offset;
    uint32_t line;
    const char *file;
};

static void debug(uint64_t code, const struct row *rows, size_t count) {
    size_t bytes = 16;
    for (size_t i = 0; i < count; i++)
        bytes += 16 + strlen(rows[i].file) + 1;
    record(2, bytes);
    put(code, 8);
    put(count, 8);
    for (size_t i = 0; i < count; i++) {
        put(code + rows[i].offset, 8);
        put(rows[i].line, 4);
        put(0, 4);
        sonde_buf_append(&file, rows[i].file, strlen(rows[i].file) + 1);
    }
}

/* --- the file alone --------------------------------------------------------------------------- */

static bool read_bytes(struct symbol_jitdump *dump, size_t len) {
    struct elf_input input = {.bytes = (const uint8_t *)file.data, .fd = -1, .size = len};
    return symbol_jitdump_read(dump, &input);
}

TEST(reading_continues_where_the_dump_ended) {
    struct symbol_jitdump dump = {0};
    begin();
    load(0x1000, 32, 1, "first");
    size_t whole = file.len;
    load(0x2000, 32, 2, "second");
    for (size_t len = 0; len < whole; len++)
        (void)read_bytes(&dump, len); /* as it grows */
    CHECK_INT(dump.load_count, ==, 0);
    CHECK(read_bytes(&dump, whole + 10));
    CHECK_INT(dump.load_count, ==, 1);
    CHECK(!read_bytes(&dump, whole + 10));
    CHECK(read_bytes(&dump, file.len));
    CHECK_INT(dump.load_count, ==, 2);
    CHECK_STR(dump.text.data + dump.loads[1].name, "second");
    symbol_jitdump_finish(&dump);
}

TEST(a_file_of_another_kind_is_not_read) {
    struct symbol_jitdump dump = {0};
    begin();
    file.data[0] = 'x';
    load(0x1000, 32, 1, "first");
    CHECK(!read_bytes(&dump, file.len));
    CHECK_INT(dump.load_count, ==, 0);
    symbol_jitdump_finish(&dump);
}

TEST(malformed_records_are_skipped) {
    struct symbol_jitdump dump = {0};
    begin();
    load(0, 32, 1, "at zero");
    move(0x1000, 0x2000, 16, 77); /* an unknown code index */
    record(0, 8);                 /* a short LOAD */
    put(0, 8);
    record(2, 4); /* a short DEBUG_INFO */
    put(0, 4);
    record(4, 16); /* unwind information, and an unknown kind */
    put(0, 8);
    put(0, 8);
    record(99, 8);
    put(0, 8);
    load(0x3000, 32, 2, "good");
    CHECK(read_bytes(&dump, file.len));
    CHECK_INT(dump.load_count, ==, 1);
    CHECK_STR(dump.text.data + dump.loads[0].name, "good");
    record(0, 0);
    memset(file.data + file.len - 12, 0, 4); /* a record of no bytes would be read forever */
    load(0x4000, 32, 3, "never seen");
    (void)read_bytes(&dump, file.len);
    CHECK_INT(dump.load_count, ==, 1);
    CHECK(dump.is_broken);
    symbol_jitdump_finish(&dump);
}

TEST(lines_without_a_load_are_dropped) {
    static const struct row rows[] = {{0, 1, "a.js"}, {8, 2, "a.js"}};
    struct symbol_jitdump dump = {0};
    begin();
    for (int i = 0; i < 100; i++)
        debug(0x1000, rows, 2);
    load(0x2000, 32, 1, "other");
    CHECK(read_bytes(&dump, file.len));
    CHECK_INT(dump.row_count, ==, 0);
    CHECK_INT(dump.loads[0].row_count, ==, 0);
    symbol_jitdump_finish(&dump);
}

/* --- a process -------------------------------------------------------------------------------- */

static int dump_fd = -1;
static void *marker;

/* Memory for code, and this process's dump, mapped as JIT compilers map it. */
static uint64_t make_code(void) {
    void *code = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    begin();
    return (uint64_t)(uintptr_t)code;
}

static void open_dump(void) {
    dump_fd = open(fixture_path("jit-%d.dump", (int)getpid()), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(dump_fd >= 0);
    CHECK_INT(ftruncate(dump_fd, 1), ==, 0); /* mapped files need a page */
    marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump_fd, 0);
    CHECK(marker != MAP_FAILED);
}

static void write_dump(void) {
    CHECK_INT(pwrite(dump_fd, file.data, file.len, 0), ==, (long)file.len);
}

static void close_dump(void) {
    munmap(marker, 4096);
    close(dump_fd);
    unlink(fixture_path("jit-%d.dump", (int)getpid()));
}

static const struct row work_rows[] = {
    {0, 10, "/app/work.js"}, {16, 11, "\xff"}, {40, 12, "/app/other.js"}};

TEST(jit_code_has_the_names_and_lines_of_its_dump) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    debug(code, work_rows, 3);
    load(code, 64, 1, "work");
    load(code + 0x100, 64, 2, "plain");
    write_dump();
    struct fixture_answer answer = fixture_name(store, getpid(), code + 17);
    CHECK_STR(answer.name, "work");
    CHECK_INT(answer.offset, ==, 17);
    CHECK_STR(answer.file, "/app/work.js");
    CHECK_INT(answer.line, ==, 11);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    answer = fixture_name(store, getpid(), code + 63);
    CHECK_STR(answer.file, "/app/other.js");
    CHECK_INT(answer.line, ==, 12);
    answer = fixture_name(store, getpid(), code + 0x100);
    CHECK_STR(answer.name, "plain");
    CHECK_STR(answer.file, "");
    CHECK_INT(fixture_name(store, getpid(), code + 64).frame_count, ==, 0);
    close_dump();
    symbol_store_destroy(store);
}

TEST(recompiled_and_moved_code_has_its_new_name_and_lines) {
    static const struct row again_rows[] = {{0, 30, "/app/again.js"}};
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    debug(code, work_rows, 3);
    load(code, 64, 1, "work");
    write_dump();
    struct symbol_mapping mapping;
    struct symbol_module *module; /* retained, as the engine does */
    CHECK(fixture_mapping(getpid(), code, &mapping));
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_STR(fixture_name(store, getpid(), code).name, "work");
    move(code, code + 0x200, 64, 1);
    debug(code + 32, again_rows, 1);
    load(code + 32, 64, 2, "again");
    write_dump();
    usleep(1100000); /* files are checked once a second */
    CHECK_INT(fixture_name(store, getpid(), code).frame_count, ==, 0);
    CHECK_STR(fixture_name(store, getpid(), code + 40).name, "again");
    CHECK_INT(fixture_name(store, getpid(), code + 40).line, ==, 30);
    struct fixture_answer answer = fixture_name(store, getpid(), code + 0x200 + 41);
    CHECK_STR(answer.name, "work");
    CHECK_INT(answer.line, ==, 12);
    symbol_module_release(module);
    close_dump();
    symbol_store_destroy(store);
}

TEST(line_offsets_that_include_an_elf_header_are_corrected) {
    static const struct row rows[] = {{64, 5, "/v8/a.js"}, {80, 6, "/v8/a.js"}};
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    debug(code, rows, 2);
    load(code, 64, 1, "JS:*a /v8/a.js:5:1");
    write_dump();
    CHECK_INT(fixture_name(store, getpid(), code + 15).line, ==, 5);
    CHECK_INT(fixture_name(store, getpid(), code + 16).line, ==, 6);
    close_dump();
    symbol_store_destroy(store);
}

TEST(a_file_name_that_was_overwritten_is_taken_from_the_functions_name) {
    static const struct row rows[] = {
        {64, 5, "\x84=\x04"}, {80, 6, "/\xe2\x80\xae"}, {96, 7, "v"}, {112, 8, "/app/inlined.js"}};
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    debug(code, rows, 4);
    load(code, 64, 1, "JS:*get work /app/my work.js:5:17");
    write_dump();
    CHECK_STR(fixture_name(store, getpid(), code + 16).file, "/app/my work.js");
    CHECK_INT(fixture_name(store, getpid(), code + 16).line, ==, 6);
    CHECK_STR(fixture_name(store, getpid(), code + 32).file, "/app/my work.js");
    CHECK_STR(fixture_name(store, getpid(), code + 48).file, "/app/inlined.js");
    close_dump();
    symbol_store_destroy(store);
}

TEST(a_dump_of_another_process_or_another_user_is_refused) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    int fd = open(fixture_path("jit-%d.dump", (int)getppid()), O_RDWR | O_CREAT, 0600);
    load(code, 64, 1, "foreign");
    CHECK_INT(pwrite(fd, file.data, file.len, 0), ==, (long)file.len);
    marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    CHECK(marker != MAP_FAILED);
    CHECK_INT(fixture_name(store, getpid(), code).frame_count, ==, 0);
    munmap(marker, 4096);
    close(fd);
    symbol_store_destroy(store);
    if (geteuid() != 0)
        return;
    store = fixture_store(NULL, NULL);
    open_dump();
    write_dump();
    CHECK_INT(fchown(dump_fd, 12345, 12345), ==, 0);
    CHECK_INT(fixture_name(store, getpid(), code).frame_count, ==, 0);
    close_dump();
    symbol_store_destroy(store);
}

TEST(a_deleted_dump_is_read_by_its_mapping) {
    if (geteuid() != 0)
        check_skip("only root can read /proc/PID/map_files");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    load(code, 64, 1, "deleted");
    write_dump();
    CHECK_INT(unlink(fixture_path("jit-%d.dump", (int)getpid())), ==, 0);
    CHECK_STR(fixture_name(store, getpid(), code).name, "deleted");
    close_dump();
    symbol_store_destroy(store);
}

TEST(a_dump_overrides_a_perf_map_and_both_count) {
    char path[64];
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    open_dump();
    load(code, 64, 1, "by dump");
    write_dump();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    CHECK(map);
    fprintf(map, "%llx 80 by map\n", (unsigned long long)code);
    fclose(map);
    CHECK_STR(fixture_name(store, getpid(), code).name, "by dump");
    CHECK_STR(fixture_name(store, getpid(), code + 64).name, "by map");
    unlink(path);
    close_dump();
    symbol_store_destroy(store);
}

/* --- a process that ends ---------------------------------------------------------------------- */

enum ending { MAP_STAYS, MAP_IS_REMOVED, MAP_COMES_LATE, DUMP_IS_REMOVED };

static void append_map(const char *path, uint64_t code) {
    FILE *map = fopen(path, "ae");
    if (!map || fprintf(map, "%llx 40 late\n", (unsigned long long)code) < 0 || fclose(map) != 0)
        _exit(1);
}

/* A JIT compiler that names its code when sonded has opened its files, and ends. */
static void run_compiler(enum ending ending, uint64_t code, const int told[2], int ready) {
    char path[64], byte;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    if (ending == DUMP_IS_REMOVED) {
        open_dump();
        write_dump();
    } else if (ending != MAP_COMES_LATE) {
        append_map(path, code + 0x1000);
    }
    close(told[1]);
    if (write(ready, "", 1) != 1 || read(told[0], &byte, 1) != 0)
        _exit(1);
    if (ending == DUMP_IS_REMOVED) {
        load(code, 64, 1, "late");
        write_dump();
        close_dump();
        _exit(0);
    }
    append_map(path, code);
    if (ending == MAP_IS_REMOVED)
        unlink(path);
    _exit(0);
}

static void check_ending(enum ending ending) {
    int told[2], ready[2], status;
    char path[64], byte;
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_module *module;
    struct symbol_mapping mapping;
    struct symbol_answer answer;
    struct sonde_arena arena = {0};
    uint64_t code = make_code();
    CHECK(pipe(told) == 0 && pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0)
        run_compiler(ending, code, told, ready[1]);
    CHECK_INT(read(ready[0], &byte, 1), ==, 1);
    CHECK(fixture_mapping(pid, code, &mapping));
    CHECK_INT(symbol_module_open(store, pid, &mapping, &module, NULL), ==, SONDE_OK);
    close(told[1]);
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
    struct symbol_query query = {.module = module, .vaddr = code + 8};
    CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.frame_count, ==, 1);
    CHECK_STR(answer.frames[0].name, "late");
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
    unlink(path);
    close(told[0]);
    close(ready[0]);
    close(ready[1]);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(names_that_a_process_wrote_before_its_end_are_read_after_it) {
    check_ending(MAP_STAYS);
    check_ending(MAP_IS_REMOVED);
    check_ending(MAP_COMES_LATE);
    check_ending(DUMP_IS_REMOVED);
}

/* Runtimes that map the same code twice use a memfd. */
TEST(code_in_a_memfd_is_named_by_the_perf_map) {
    char path[64];
    struct symbol_store *store = fixture_store(NULL, NULL);
    int fd = memfd_create("doublemapper", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(code != MAP_FAILED);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    CHECK_INT(fixture_name(store, getpid(), (uint64_t)(uintptr_t)code).reason, ==,
              SYMBOL_REASON_NOT_ELF);
    FILE *map = fopen(path, "w");
    CHECK(map);
    fprintf(map, "%llx 80 in a memfd\n", (unsigned long long)(uintptr_t)code);
    fclose(map);
    CHECK_STR(fixture_name(store, getpid(), (uint64_t)(uintptr_t)code + 1).name, "in a memfd");
    unlink(path);
    munmap(code, 4096);
    close(fd);
    symbol_store_destroy(store);
}

/* --- node ------------------------------------------------------------------------------------- */

/* Finds the newest code with that name. */
static uint64_t find_code(const char *path, const char *name) {
    struct symbol_jitdump dump = {0};
    struct elf_input input;
    uint64_t start = 0;
    int fd = open(path, O_RDONLY);
    CHECK(elf_input_of_file(fd, &input) && symbol_jitdump_read(&dump, &input));
    for (uint32_t i = 0; i < dump.load_count; i++)
        if (strstr(dump.text.data + dump.loads[i].name, name) && dump.loads[i].row_count > 0)
            start = dump.loads[i].start;
    symbol_jitdump_finish(&dump);
    close(fd);
    return start;
}

TEST(functions_of_node_have_their_names_files_and_lines) {
    struct fixture_process process;
    fixture_write("burn.js", "function hotLeaf(x) {\n"
                             "  let s = x;\n"
                             "  for (let i = 0; i < 1000; i++) s = (s * 31 + i) | 0;\n"
                             "  return s;\n"
                             "}\n"
                             "let r = 0;\n"
                             "for (let i = 0; i < 30000; i++) r ^= hotLeaf(i);\n"
                             "console.log('result ' + r + '\\nready');\n"
                             "process.stdin.resume();\n"
                             "process.stdin.on('end', () => process.exit(0));\n");
    fixture_write("node.sh",
                  "#!/bin/sh\ncd \"$(dirname \"$0\")\" && exec node --perf-prof burn.js\n");
    fixture_must("node", "chmod 700 node.sh");
    fixture_start(&process, fixture_path("node.sh"), NULL);
    uint64_t code = find_code(fixture_path("jit-%d.dump", (int)process.pid), "hotLeaf");
    CHECK(code != 0);
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_answer answer = fixture_name(store, process.pid, code + 60);
    CHECK(strstr(answer.name, "hotLeaf"));
    CHECK(strstr(answer.file, "burn.js"));
    CHECK(answer.line >= 1 && answer.line <= 5);
    symbol_store_destroy(store);
    fixture_stop(&process);
}
