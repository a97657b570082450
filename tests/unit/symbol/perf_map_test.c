/* SPDX-License-Identifier: Apache-2.0
 *
 * Code without a file: perf maps, valid and malicious, kallsyms, [vsyscall]. */
#include "service/symbol/jit/perf_map.h"
#include "service/symbol/symtab/symbol_table.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct symbol_table names;
static struct sonde_buf image;

static void build(struct symbol_collection *collection) {
    sonde_buf_finish(&image);
    CHECK_INT(symbol_table_build(collection, "id", 0, &image), ==, SONDE_OK);
    symbol_collection_finish(collection);
    CHECK_INT(symbol_table_open(image.data, image.len, "id", false, &names), ==, SONDE_OK);
}

static void parse(const char *text) {
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    CHECK_INT(symbol_perf_map_parse(text, strlen(text), &collection), ==, SONDE_OK);
    build(&collection);
}

static const char *at(uint64_t address) {
    uint32_t symbol = symbol_table_find(&names, address);
    return symbol == SYMBOL_NO_SYMBOL ? "-" : symbol_table_name(&names, symbol);
}

TEST(s6_a_map_names_its_code) {
    parse("1000 10 first function\n0x1020 0x10 second\r\nABC0 20 third");
    CHECK_STR(at(0x1000), "first function");
    CHECK_STR(at(0x100f), "first function");
    CHECK_STR(at(0x1010), "-");
    CHECK_STR(at(0x102f), "second");
    CHECK_STR(at(0xabdf), "third");
}

TEST(s6_later_lines_override_what_they_overlap) {
    parse("1000 100 old\n1040 20 new\n1050 100 newest\n");
    CHECK_STR(at(0x103f), "old");
    CHECK_STR(at(0x1040), "new");
    CHECK_STR(at(0x104f), "new");
    CHECK_STR(at(0x1050), "newest");
    CHECK_STR(at(0x114f), "newest");
    CHECK_STR(at(0x1150), "-");
    parse("1040 20 inner\n1000 100 outer\n");
    CHECK_STR(at(0x1045), "outer");
    parse("1000 100 v1\n1000 80 v2\n1000 40 v3\n");
    CHECK_STR(at(0x1000), "v3");
    CHECK_STR(at(0x1040), "v2");
    CHECK_STR(at(0x1080), "v1");
}

TEST(s6_the_overlay_agrees_with_a_simple_search) {
    struct plain {
        uint64_t start, size;
    } lines[200];
    char text[16384];
    size_t len = 0;
    srand(3);
    for (int i = 0; i < 200; i++) {
        lines[i] = (struct plain){0x1000 + (uint64_t)(rand() % 2000), 1 + (uint64_t)(rand() % 90)};
        len += (size_t)sprintf(text + len, "%llx %llx f%d\n", (unsigned long long)lines[i].start,
                               (unsigned long long)lines[i].size, i);
    }
    parse(text);
    for (uint64_t address = 0xff0; address < 0x1900; address++) {
        char wanted[16] = "-";
        for (int i = 0; i < 200; i++)
            if (address >= lines[i].start && address - lines[i].start < lines[i].size)
                snprintf(wanted, sizeof wanted, "f%d", i);
        CHECK_STR(at(address), wanted);
    }
}

TEST(s6_of_too_many_lines_the_last_count) {
    enum { LINES = SYMBOL_PERF_MAP_LINES + 1000 };
    struct sonde_buf text = {0};
    for (int i = 0; i < LINES; i++)
        sonde_buf_printf(&text, "%x 10 f%d\n", 0x10000 + i * 16, i);
    sonde_buf_putc(&text, 0);
    parse(text.data);
    CHECK_STR(at(0x10000), "-");
    CHECK_STR(at(0x10000 + 999 * 16), "-");
    CHECK_STR(at(0x10000 + 1000 * 16), "f1000");
    char last[32];
    snprintf(last, sizeof last, "f%d", LINES - 1);
    CHECK_STR(at(0x10000 + (uint64_t)(LINES - 1) * 16), last);
    sonde_buf_finish(&text);
}

TEST(s6_broken_lines_are_skipped) {
    parse("\n\n1000\n1000 10\n1000 10 \nzz 10 x\n1000 zz x\n0 10 null\n1000 0 empty\n"
          "10000000000000000 10 long\nffffffffffffffff 10 wraps\n1000 ffffffffffff huge\n"
          "2000 10 good\n");
    CHECK_STR(at(0x1000), "-");
    CHECK_STR(at(0x2005), "good");
}

static char map_path[64];

/* A page of JIT code in this process. */
static uint64_t make_code(void) {
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", (int)getpid());
    unlink(map_path);
    return (uint64_t)(uintptr_t)code;
}

static void write_map(uint64_t code, const char *name) {
    FILE *file = fopen(map_path, "w");
    CHECK(file);
    fprintf(file, "%llx 100 %s\n", (unsigned long long)code, name);
    fclose(file);
}

TEST(s6_jit_code_of_a_process_is_named_and_named_again_after_recompilation) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t code = make_code();
    write_map(code, "LazyCompile:~work /app/@scope/a.js:1");
    struct fixture_answer answer = fixture_name(store, getpid(), code + 5);
    CHECK_STR(answer.name, "LazyCompile:~work /app/@scope/a.js:1");
    CHECK_INT(answer.offset, ==, 5);
    CHECK_INT(fixture_name(store, getpid(), code + 0x100).frame_count, ==, 0);
    symbol_store_destroy(store);

    store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping;
    struct symbol_module *module; /* retained, as the engine does */
    CHECK(fixture_mapping(getpid(), code, &mapping));
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK(strncmp(fixture_name(store, getpid(), code).name, "LazyCompile", 11) == 0);
    FILE *file = fopen(map_path, "a");
    fprintf(file, "%llx 80 recompiled\n", (unsigned long long)code);
    fclose(file);
    usleep(1100000); /* files are checked once a second */
    CHECK_STR(fixture_name(store, getpid(), code).name, "recompiled");
    unlink(map_path);
    usleep(1100000);
    CHECK_STR(fixture_name(store, getpid(), code).name, "recompiled"); /* kept */
    symbol_module_release(module);
    symbol_store_destroy(store);
}

static void check_refused(uint64_t code) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_answer answer = fixture_name(store, getpid(), code);
    CHECK_INT(answer.frame_count, ==, 0);
    CHECK_INT(answer.reason, ==, SYMBOL_REASON_ANONYMOUS);
    symbol_store_destroy(store);
    unlink(map_path);
}

TEST(s6_hostile_maps_are_refused) {
    uint64_t code = make_code();
    char line[64];
    snprintf(line, sizeof line, "%llx 100 planted\n", (unsigned long long)code);
    fixture_write("elsewhere", line);
    CHECK_INT(symlink(fixture_path("elsewhere"), map_path), ==, 0);
    check_refused(code);
    CHECK_INT(mkfifo(map_path, 0600), ==, 0); /* no process writes to it */
    check_refused(code);
    CHECK_INT(mkdir(map_path, 0700), ==, 0);
    struct symbol_store *store = fixture_store(NULL, NULL);
    CHECK_INT(fixture_name(store, getpid(), code).frame_count, ==, 0);
    symbol_store_destroy(store);
    CHECK_INT(rmdir(map_path), ==, 0);
    if (geteuid() != 0)
        return;
    write_map(code, "of another user");
    CHECK_INT(chown(map_path, 12345, 12345), ==, 0);
    check_refused(code);
}

TEST(s6_a_huge_map_is_read_from_its_end) {
    uint64_t code = make_code();
    write_map(code, "early");
    CHECK_INT(truncate(map_path, (off_t)5 << 30), ==, 0); /* sparse: 5 GB of zeros */
    FILE *file = fopen(map_path, "a");
    fprintf(file, "\n%llx 100 late\n", (unsigned long long)code);
    fclose(file);
    struct symbol_store *store = fixture_store(NULL, NULL);
    CHECK_STR(fixture_name(store, getpid(), code).name, "late");
    symbol_store_destroy(store);
    unlink(map_path);
}

TEST(s6_a_map_in_a_container_is_found_by_the_inner_pid) {
    if (geteuid() != 0 || fixture_run("unshare --mount --pid --fork true") != 0)
        check_skip("creating namespaces is not allowed here");
    fixture_write("jit.c", "#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
                           "int main(void) { char *code = mmap(0, 4096, PROT_READ | PROT_EXEC,\n"
                           "MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); char path[64];\n"
                           "snprintf(path, 64, \"/tmp/perf-%d.map\", (int)getpid());\n"
                           "FILE *map = fopen(path, \"w\"); if (!map) return 1;\n"
                           "fprintf(map, \"%p 100 inside\\n\", (void *)code); fclose(map);\n"
                           "printf(\"code %p\\nready\\n\", (void *)code); fflush(stdout);\n"
                           "char byte; return (int)read(0, &byte, 1); }\n");
    fixture_must("gcc",
                 "mkdir -p root/tmp root%s && gcc -static jit.c -o jit && "
                 "cp jit root%s/jit",
                 fixture_dir(), fixture_dir());
    struct fixture_process process;
    fixture_start(&process, fixture_path("jit"), fixture_path("root"));
    long pid = strtol(fixture_line("pgrep -P %d", (int)process.pid), NULL, 10);
    CHECK_INT(pid, >, 0);
    CHECK_INT(fixture_run("test -e root/tmp/perf-1.map"), ==, 0);
    struct symbol_store *store = fixture_store(NULL, NULL);
    CHECK_STR(fixture_name(store, (pid_t)pid, fixture_address(&process, "code ")).name, "inside");
    symbol_store_destroy(store);
    fixture_stop(&process);
}

TEST(s8_zeros_in_kallsyms_hide_the_kernel) {
    static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t do_one\n";
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    struct symbol_core core;
    CHECK(!symbol_kallsyms_parse(hidden, sizeof hidden - 1, &collection, &core));
    symbol_collection_finish(&collection);
}

TEST(kallsyms_name_the_kernel_and_its_modules) {
    static const char text[] = "0000000000000000 A fixed_percpu_data\n"
                               "ffffffff81000000 T _stext\nffffffff81000100 t do_one\n"
                               "ffffffff81000200 D some_data\nffffffff81000300 T after\n"
                               "ffffffffc0000000 t init_it\t[mod]\n";
    struct symbol_collection collection = {.quality = SYMBOL_NAMES};
    struct symbol_core core;
    CHECK(symbol_kallsyms_parse(text, sizeof text - 1, &collection, &core));
    CHECK(core.first == 0xffffffff81000000 && core.last == 0xffffffff81000300);
    build(&collection);
    CHECK_STR(at(0xffffffff81000050), "_stext");
    CHECK_STR(at(0xffffffff81000250), "do_one");
    CHECK_STR(at(0xffffffff81000300), "after");
    CHECK_STR(at(0xffffffffc0000010), "init_it [mod]");
    CHECK_STR(at(0xffffffffa0000000), "-");
    CHECK_STR(at(0x100), "-");
}

TEST(s8_the_running_kernel_is_named_or_reported_as_hidden) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_module *module;
    CHECK_INT(symbol_module_open_kernel(store, &module, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_KERNEL);
    uint64_t address = strtoull(
        fixture_line("grep -m1 -w -i 't schedule' /proc/kallsyms | cut -d' ' -f1"), NULL, 16);
    struct sonde_arena arena = {0};
    struct symbol_query query = {.module = module, .vaddr = address + 1};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
    if (address == 0) {
        CHECK_INT(symbol_module_reason(module), ==, SYMBOL_REASON_KERNEL_HIDDEN);
        CHECK_INT(answer.frame_count, ==, 0);
    } else {
        CHECK_INT(answer.frame_count, ==, 1);
        CHECK_STR(answer.frames[0].name, "schedule");
    }
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

/* Loads a BPF program of that name; -1 = it may not. The descriptor keeps it loaded. */
static int load_bpf(const char *name) {
    struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
                              {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
                           .insns = (uintptr_t)code,
                           .insn_cnt = sizeof code / sizeof *code,
                           .license = (uintptr_t) "GPL"};
    snprintf(load.prog_name, sizeof load.prog_name, "%s", name);
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
}

static uint64_t find_bpf(const char *name) {
    char command[128];
    snprintf(command, sizeof command,
             "grep -m1 'bpf_prog_[0-9a-f]*_%s' /proc/kallsyms | cut -d' ' -f1", name);
    return strtoull(fixture_line(command), NULL, 16);
}

/* Between two looks at kallsyms, there is a pause. */
static void await_kernel_name(struct symbol_store *store, struct symbol_module *module,
                              uint64_t address, const char *name) {
    struct symbol_query query = {.module = module, .vaddr = address};
    bool has_name = false;
    while (!has_name) {
        struct sonde_arena arena = {0};
        struct symbol_answer answer;
        CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
        has_name = answer.frame_count == 1 && strstr(answer.frames[0].name, name);
        sonde_arena_finish(&arena);
        usleep(50000);
    }
}

TEST(a_bpf_program_that_was_loaded_later_has_its_name) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_module *module;
    CHECK_INT(symbol_module_open_kernel(store, &module, NULL), ==, SONDE_OK);
    int program = load_bpf("sonde_first");
    uint64_t address = program >= 0 ? find_bpf("sonde_first") : 0;
    if (address == 0)
        check_skip("no BPF programs with names here");
    await_kernel_name(store, module, address, "_sonde_first");
    close(program);
    program = load_bpf("sonde_second");
    address = find_bpf("sonde_second");
    CHECK(address != 0);
    await_kernel_name(store, module, address, "_sonde_second");
    close(program);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

/* Stacks hold the kernel's addresses without bit 63. */
TEST(a_mapping_without_bit_63_is_the_kernel) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping = {.start = 0x7fff800000000000,
                                     .end = 0x7fffffffffffffff,
                                     .path = SYMBOL_KERNEL_PATH,
                                     .is_kernel = true};
    struct symbol_module *module;
    uint64_t bias;
    CHECK_INT(symbol_module_open(store, 0, &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_KERNEL);
    CHECK(symbol_module_bias(module, &mapping, &bias));
    CHECK_INT(0x7fffffff81001000 - bias, ==, 0xffffffff81001000);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(a_process_cannot_call_its_memory_the_kernel) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping = {
        .start = 0x7fff800000000000, .end = 0x7fffffffffffffff, .path = SYMBOL_KERNEL_PATH};
    struct symbol_module *module;
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_NONE);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(vsyscall_has_its_three_names) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping = {
        .start = 0xffffffffff600000, .end = 0xffffffffff601000, .path = "[vsyscall]"};
    struct symbol_module *module;
    uint64_t bias;
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK(symbol_module_bias(module, &mapping, &bias));
    struct sonde_arena arena = {0};
    struct symbol_query query = {.module = module, .vaddr = 0xffffffffff600400 - bias};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.frame_count, ==, 1);
    CHECK_STR(answer.frames[0].name, "time");
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}
