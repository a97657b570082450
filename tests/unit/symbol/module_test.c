/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that the tests compile and run, whose planted functions are found by runtime addresses.
 * The numbers in the names are those of docs/requirements.md. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

static const char planted[] =
    "#include <stdio.h>\n"
    "#include <unistd.h>\n"
    "#ifdef FAR\n__asm__(\".text; .zero 9000\");\n#else\n#define FAR\n#endif\n"
    "__attribute__((noinline, noclone)) int planted_one(int x) { __asm__ "
    "volatile(\"\"); return x + 1; }\n"
    "FAR __attribute__((noinline, noclone)) int planted_two(int x) { __asm__ "
    "volatile(\"\"); return x * 3; }\n"
    "int main(void) {\n"
    "    printf(\"one %p\\ntwo %p\\nputs %p\\nready\\n\", (void "
    "*)planted_one, (void *)planted_two, (void *)puts);\n"
    "    fflush(stdout);\n"
    "    char byte;\n"
    "    while (read(0, &byte, 1) > 0) {}\n"
    "    return planted_one(planted_two(0)) == 9;\n"
    "}\n";

static void compile(const char *compiler, const char *flags, const char *out) {
    fixture_write("planted.c", planted);
    fixture_must(compiler, "%s %s planted.c -o %s", compiler, flags, out);
}

static void check_names(struct symbol_store *store, const struct fixture_process *process) {
    uint64_t one = fixture_address(process, "one "), two = fixture_address(process, "two ");
    struct fixture_answer answer = fixture_name(store, process->pid, one);
    CHECK_STR(answer.name, "planted_one");
    CHECK_INT(answer.offset, ==, 0);
    CHECK_INT(answer.quality, >=, SYMBOL_NAMES);
    CHECK_STR(fixture_name(store, process->pid, two + 1).name, "planted_two");
}

static void check_program(const char *compiler, const char *flags) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    compile(compiler, flags, "program");
    fixture_start(&process, fixture_path("program"), NULL);
    check_names(store, &process);
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s1_a_position_independent_program) {
    check_program("gcc", "-O2 -fPIE -pie");
}

TEST(s1_a_program_at_a_fixed_address) {
    check_program("gcc", "-O2 -no-pie");
}

TEST(s1_a_static_program) {
    check_program("gcc", "-O2 -static");
}

TEST(s1_a_program_linked_by_lld_whose_text_is_not_where_the_file_offset_says) {
    check_program("clang", "-O2 -fuse-ld=lld");
    CHECK_INT(
        fixture_run("readelf -lW program | awk '$1 == \"LOAD\" && / R E / { exit $2 == $3 }'"), ==,
        0);
}

TEST(s1_two_segments_on_one_page) {
    check_program("clang", "-O2 -fuse-ld=lld -Wl,-z,noseparate-code");
}

/* Both segments have code, so the offset of a mapping does not say which one it is. */
TEST(s1_two_segments_of_code_on_one_page) {
    const char *far = "-DFAR='__attribute__((section(\".far\")))' -O2 -fuse-ld=lld "
                      "-Wl,--section-start=.far=0x10000000";
    char flags[256];
    snprintf(flags, sizeof flags, "%s -no-pie", far);
    check_program("gcc", flags);
    snprintf(flags, sizeof flags, "%s -pie -fPIE", far);
    check_program("gcc", flags);
}

TEST(s1_text_and_data_in_one_segment) {
    check_program("gcc", "-O2 -Wl,-z,noseparate-code");
}

TEST(s1_a_program_prelinked_to_a_high_address) {
    check_program("gcc", "-O2 -fPIE -pie -Wl,-Ttext-segment=0x40000000");
}

TEST(s1_a_library_loaded_later) {
    fixture_write("lib.c", "__attribute__((noinline)) int lib_function(int x) { return x ^ 5; }\n");
    fixture_write("host.c",
                  "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n"
                  "int main(void) { void *lib = dlopen(\"./libplanted.so\", RTLD_NOW);\n"
                  "printf(\"lib %p\\nready\\n\", lib ? dlsym(lib, \"lib_function\") : 0);\n"
                  "fflush(stdout); char byte; return (int)read(0, &byte, 1); }\n");
    fixture_must("gcc", "gcc -O2 -fPIC -shared lib.c -o libplanted.so && gcc host.c -o host");
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    CHECK_INT(chdir(fixture_dir()), ==, 0);
    fixture_start(&process, fixture_path("host"), NULL);
    struct fixture_answer answer =
        fixture_name(store, process.pid, fixture_address(&process, "lib "));
    CHECK_STR(answer.name, "lib_function");
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s2_a_program_in_another_root_is_not_mistaken_for_ours) {
    if (geteuid() != 0)
        check_skip("creating namespaces is not allowed here");
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    /* In the other root, the path is `planted`; in ours, the same path is another program. */
    compile("gcc", "-O2 -static", "app");
    CHECK_INT(fixture_run("mkdir -p root%s && cp app root%s/app && cp app root/app", fixture_dir(),
                          fixture_dir()),
              ==, 0);
    fixture_write("other.c",
                  "int planted_wrong(void) { return 1; } int main(void) { return 0; }\n");
    CHECK_INT(fixture_run("gcc -O2 -static other.c -o app"), ==, 0);
    if (fixture_run("unshare --mount --pid --fork true") != 0)
        check_skip("creating namespaces is not allowed here");
    fixture_start(&process, fixture_path("app"), fixture_path("root"));
    /* The program is a child of unshare. */
    long pid = strtol(fixture_line("pgrep -P %d", (int)process.pid), NULL, 10);
    CHECK_INT(pid, >, 0);
    uint64_t one = fixture_address(&process, "one ");
    CHECK_STR(fixture_name(store, (pid_t)pid, one).name, "planted_one");
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s3_a_deleted_program_keeps_its_names) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    compile("gcc", "-O2", "deleted");
    fixture_start(&process, fixture_path("deleted"), NULL);
    CHECK_INT(fixture_run("rm deleted"), ==, 0);
    check_names(store, &process);
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s3_a_replaced_program_is_not_named_by_the_new_file) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    compile("gcc", "-O2", "replaced");
    fixture_start(&process, fixture_path("replaced"), NULL);
    fixture_write("other.c",
                  "int planted_wrong[9999]; int main(void) { return planted_wrong[1]; }\n");
    CHECK_INT(fixture_run("gcc -O2 other.c -o new && mv new replaced"), ==, 0);
    uint64_t one = fixture_address(&process, "one ");
    struct fixture_answer answer = fixture_name(store, process.pid, one);
    bool old_name = strcmp(answer.name, "planted_one") == 0;
    CHECK(old_name || (answer.frame_count == 0 && answer.reason == SYMBOL_REASON_BINARY_REPLACED));
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s4_a_process_that_is_gone_is_still_named) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_process process;
    struct symbol_mapping mapping;
    struct symbol_module *module;
    uint64_t bias;
    compile("gcc", "-O2", "gone");
    fixture_start(&process, fixture_path("gone"), NULL);
    uint64_t one = fixture_address(&process, "one ");
    CHECK(fixture_mapping(process.pid, one, &mapping));
    CHECK_INT(symbol_module_open(store, process.pid, &mapping, &module, NULL), ==, SONDE_OK);
    CHECK(symbol_module_bias(module, &mapping, &bias));
    fixture_stop(&process);
    CHECK_INT(fixture_run("rm gone"), ==, 0);
    struct sonde_arena arena = {0};
    struct symbol_query query = {.module = module, .vaddr = one - bias};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve(store, &query, 1, &arena, &answer), ==, SONDE_OK);
    CHECK_INT(answer.frame_count, ==, 1);
    CHECK_STR(answer.frames[0].name, "planted_one");
    CHECK_STR(symbol_module_base_name(module), "gone");
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_EXECUTABLE);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

/* A stripped program with a debug file to which its .gnu_debuglink refers. */
static void make_linked(const char *extra) {
    compile("gcc", extra, "linked");
    fixture_must("objcopy",
                 "rm -rf .debug linked.debug && objcopy --only-keep-debug linked linked.debug && "
                 "strip linked && objcopy --add-gnu-debuglink=linked.debug linked");
}

TEST(s5_a_debuglink_with_the_right_checksum_is_followed) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    make_linked("-O2 -no-pie -Wl,--build-id=none");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "planted_one");
    CHECK_INT(fixture_run("mkdir .debug && mv linked.debug .debug/"), ==, 0);
    symbol_store_destroy(store);
    store = fixture_store(NULL, NULL);
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "planted_one");
    symbol_store_destroy(store);
}

TEST(s5_a_debuglink_with_a_wrong_checksum_is_rejected) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    make_linked("-O2 -no-pie -Wl,--build-id=none");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_INT(fixture_run("printf x >> linked.debug"), ==, 0);
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "");
    symbol_store_destroy(store);
}

TEST(s5_a_debuglink_to_another_build_id_is_rejected) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    make_linked("-O2 -no-pie -Wl,--build-id=0x1234567890");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_INT(
        fixture_run("cp linked keep && gcc -O2 -no-pie -Wl,--build-id=0x99 planted.c -o linked "
                    "&& objcopy --only-keep-debug linked linked.debug && mv keep linked"),
        ==, 0);
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "");
    symbol_store_destroy(store);
}

TEST(s5_a_debuglink_to_the_file_itself_is_harmless) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    make_linked("-O2 -no-pie");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_INT(fixture_run("rm linked.debug && ln linked linked.debug"), ==, 0);
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), one).name, "");
    symbol_store_destroy(store);
}

TEST(s5_a_debug_file_is_found_by_build_id) {
    make_linked("-O2 -no-pie -Wl,--build-id=0xabcdef0123");
    uint64_t one = fixture_nm(fixture_path("linked.debug"), "planted_one");
    CHECK_INT(fixture_run("rm -rf roots && mkdir -p roots/.build-id/ab && "
                          "mv linked.debug roots/.build-id/ab/cdef0123.debug"),
              ==, 0);
    char roots[512];
    snprintf(roots, sizeof roots, "/nowhere:%s", fixture_path("roots"));
    struct symbol_store *store = fixture_store(NULL, roots);
    struct fixture_answer answer = fixture_name_in(store, fixture_path("linked"), one);
    CHECK_STR(answer.name, "planted_one");
    CHECK_STR(answer.build_id, "abcdef0123");
    symbol_store_destroy(store);
}

TEST(s7_the_vdso_is_named) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t start = getauxval(AT_SYSINFO_EHDR);
    if (start == 0)
        check_skip("this machine has no vdso");
    struct symbol_mapping mapping;
    struct symbol_module *module;
    uint64_t bias;
    CHECK(fixture_mapping(getpid(), start, &mapping));
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_VDSO);
    CHECK(symbol_module_bias(module, &mapping, &bias));
    struct symbol_query queries[4096];
    struct symbol_answer answers[4096];
    struct sonde_arena arena = {0};
    for (uint64_t i = 0; i < 4096; i++)
        queries[i] = (struct symbol_query){.module = module, .vaddr = start + i - bias};
    CHECK_INT(symbol_resolve(store, queries, 4096, &arena, answers), ==, SONDE_OK);
    bool found = false;
    for (size_t i = 0; i < 4096; i++)
        found |= answers[i].frame_count && strstr(answers[i].frames[0].name, "clock_gettime");
    CHECK(found);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

struct asker {
    struct symbol_store *store;
    struct symbol_module *module;
    uint64_t vaddr;
    bool right;
};

static void *ask(void *context) {
    struct asker *asker = context;
    struct sonde_arena arena = {0};
    struct symbol_query query = {.module = asker->module, .vaddr = asker->vaddr};
    struct symbol_answer answer;
    asker->right = symbol_resolve(asker->store, &query, 1, &arena, &answer) == SONDE_OK &&
                   answer.frame_count == 1 && strcmp(answer.frames[0].name, "planted_two") == 0;
    sonde_arena_finish(&arena);
    return NULL;
}

TEST(s11_a_hundred_requests_for_a_cold_file_convert_it_once) {
    enum { ASKERS = 100 };
    struct symbol_store *store = fixture_store(fixture_path("once"), NULL);
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];
    compile("gcc", "-O2 -static", "cold");
    struct symbol_module *module = fixture_module(store, fixture_path("cold"));
    uint64_t two = fixture_nm(fixture_path("cold"), "planted_two");
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){store, module, two, false};
        CHECK_INT(pthread_create(&threads[i], NULL, ask, &askers[i]), ==, 0);
    }
    for (int i = 0; i < ASKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ASKERS; i++)
        CHECK(askers[i].right);
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(s12_a_corrupted_table_is_discarded_and_rebuilt) {
    compile("gcc", "-O2 -no-pie", "stored");
    uint64_t one = fixture_nm(fixture_path("stored"), "planted_one");
    struct symbol_store *store = fixture_store(fixture_path("tables"), NULL);
    CHECK_STR(fixture_name_in(store, fixture_path("stored"), one).name, "planted_one");
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    symbol_store_destroy(store);

    store = fixture_store(fixture_path("tables"), NULL);
    CHECK_STR(fixture_name_in(store, fixture_path("stored"), one).name, "planted_one");
    CHECK_INT(symbol_store_tables_built(store), ==, 0); /* it was loaded from disk */
    symbol_store_destroy(store);

    CHECK_INT(fixture_run("for f in tables/*.symbols; do printf XXXX | "
                          "dd of=$f bs=1 seek=700 conv=notrunc; done"),
              ==, 0);
    store = fixture_store(fixture_path("tables"), NULL);
    CHECK_STR(fixture_name_in(store, fixture_path("stored"), one).name, "planted_one");
    CHECK_INT(symbol_store_tables_built(store), ==, 1);
    symbol_store_destroy(store);

    CHECK_INT(fixture_run("truncate -s 100 tables/*.symbols"), ==, 0);
    store = fixture_store(fixture_path("tables"), NULL);
    CHECK_STR(fixture_name_in(store, fixture_path("stored"), one).name, "planted_one");
    symbol_store_destroy(store);
}

TEST(s14_a_truncated_file_costs_its_own_names_only) {
    compile("gcc", "-O2 -static", "whole");
    uint64_t one = fixture_nm(fixture_path("whole"), "planted_one");
    static const int shares[] = {1, 2, 10, 30, 50, 70, 90, 99};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct symbol_store *store = fixture_store(NULL, NULL);
        CHECK_INT(
            fixture_run("head -c $(($(stat -c %%s whole) * %d / 100)) whole > cut", shares[i]), ==,
            0);
        struct fixture_answer answer = fixture_name_in(store, fixture_path("cut"), one);
        CHECK(answer.frame_count == 0 || strcmp(answer.name, "planted_one") == 0);
        symbol_store_destroy(store);
    }
}

TEST(s15_the_last_byte_of_a_call_at_a_functions_end_is_still_the_caller) {
    fixture_write("noreturn.s", ".text\n.globl caller\n.type caller,@function\ncaller:\n"
                                "  nop\n  call other\n.size caller,.-caller\n"
                                ".globl other\n.type other,@function\nother:\n  hlt\n"
                                ".size other,.-other\n.globl _start\n_start: hlt\n");
    fixture_must("gcc", "gcc -nostdlib -no-pie noreturn.s -o noreturn");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t other = fixture_nm(fixture_path("noreturn"), "other");
    /* The return address is `other`; minus 1, it is in the caller. */
    CHECK_STR(fixture_name_in(store, fixture_path("noreturn"), other - 1).name, "caller");
    CHECK_STR(fixture_name_in(store, fixture_path("noreturn"), other).name, "other");
    symbol_store_destroy(store);
}

static void check_plt(const char *compiler, const char *flags) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    compile(compiler, flags, "plt");
    CHECK_INT(fixture_run("objdump -d plt | grep -E '<(printf|read|fflush|puts)@plt>:' > plt.txt"),
              ==, 0);
    char wanted[64];
    unsigned long long address;
    int entries = atoi(fixture_line("wc -l < plt.txt"));
    for (int i = 1; i <= entries; i++) {
        CHECK_INT(sscanf(fixture_line("sed -n %dp plt.txt", i), "%llx <%63[^>]", &address, wanted),
                  ==, 2);
        CHECK_STR(fixture_name_in(store, fixture_path("plt"), address).name, wanted);
        CHECK_STR(fixture_name_in(store, fixture_path("plt"), address + 7).name, wanted);
    }
    symbol_store_destroy(store);
}

TEST(trap_9_the_procedure_linkage_table_has_names) {
    check_plt("gcc", "-O2 -no-pie -fno-plt -fplt");
    check_plt("gcc", "-O2 -fcf-protection=full -Wl,-z,ibtplt");
    check_plt("clang", "-O2 -fuse-ld=lld");
}

TEST(trap_8_ifuncs_and_untyped_labels_count_and_data_does_not) {
    fixture_write("kinds.s",
                  ".text\n.globl picked\n.type picked,@gnu_indirect_function\npicked:\n"
                  "  nop\n  ret\n.size picked,.-picked\n"
                  ".globl label\nlabel:\n  nop\n  ret\n"
                  ".type table,@object\ntable:\n .quad 1\n.size table,8\n"
                  ".globl _start\n.type _start,@function\n_start: hlt\n.size _start,1\n");
    fixture_must("gcc", "gcc -nostdlib -no-pie -static kinds.s -o kinds");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t picked = fixture_nm(fixture_path("kinds"), "picked");
    uint64_t label = fixture_nm(fixture_path("kinds"), "label");
    CHECK_STR(fixture_name_in(store, fixture_path("kinds"), picked + 1).name, "picked");
    CHECK_STR(fixture_name_in(store, fixture_path("kinds"), label + 1).name, "label");
    CHECK_STR(fixture_name_in(store, fixture_path("kinds"), label + 4).name, "label");
    symbol_store_destroy(store);
}

TEST(variables_have_names_but_constants_and_labels_of_data_have_none) {
    fixture_write(
        "variables.c",
        "long filled[4] = {1}, empty[4];\nstatic volatile long own = 3;\nextern char edge[];\n"
        "__asm__(\".data\\nedge: .quad 1, 2\\n.text\");\nconst long constant[4] = {1};\n"
        "extern long *const relocated[2]; long *const relocated[2] = {empty};\n"
        "int main(void) { return (int)(filled[0] + empty[1] + own + edge[0] + "
        "constant[1]) + !relocated[0]; }\n");
    fixture_must("gcc", "gcc -O1 -fpie -pie -Wl,-z,relro,-z,now variables.c -o variables");
    struct symbol_store *store = fixture_store(NULL, NULL);
    const char *program = fixture_path("variables");
    static const struct {
        const char *symbol;
        bool is_named;
    } rows[] = {{"filled", true}, {"empty", true},     {"own", true},
                {"edge", false},  {"constant", false}, {"relocated", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t address = fixture_nm(program, rows[i].symbol);
        struct fixture_answer answer = fixture_name_in(store, program, address + 5);
        CHECK(address);
        CHECK_STR(answer.name, rows[i].is_named ? rows[i].symbol : "");
        CHECK_INT(answer.offset, ==, rows[i].is_named ? 5 : 0);
    }
    uint64_t end = fixture_nm(program, "empty") + 4 * sizeof(long);
    CHECK(strcmp(fixture_name_in(store, program, end).name, "empty") != 0);
    symbol_store_destroy(store);
}

TEST(anonymous_memory_and_missing_files_have_no_names_but_a_reason) {
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping = {.start = 0x1000, .end = 0x2000, .path = ""};
    struct symbol_module *module;
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_STR(symbol_module_path(module), "[anon]");
    CHECK_INT(symbol_module_fd(module), ==, -1);
    CHECK_INT(symbol_module_kind(module), ==, SYMBOL_MODULE_NONE);
    CHECK_STR(symbol_reason_text(symbol_module_reason(module)), "ANONYMOUS");
    symbol_module_release(module);
    mapping = (struct symbol_mapping){
        .start = 0x1000, .end = 0x2000, .inode = 99999999, .path = "/nowhere/at/all"};
    CHECK_INT(symbol_module_open(store, getpid(), &mapping, &module, NULL), ==, SONDE_OK);
    CHECK_STR(symbol_reason_text(symbol_module_reason(module)), "NO_FILE");
    struct sonde_arena arena = {0};
    struct symbol_query queries[2] = {{.module = module, .vaddr = 0x10}, {.vaddr = 0x10}};
    struct symbol_answer answers[2];
    CHECK_INT(symbol_resolve(store, queries, 2, &arena, answers), ==, SONDE_OK);
    CHECK_INT(answers[0].frame_count, ==, 0);
    CHECK_INT(answers[1].frame_count, ==, 0);
    symbol_module_release(module);
    symbol_store_destroy(store);
}
