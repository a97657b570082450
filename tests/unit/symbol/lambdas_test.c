/* SPDX-License-Identifier: Apache-2.0
 *
 * Lambdas and closures differ from one another in every compiler's output. */
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <stdio.h>
#include <stdlib.h>

/* Each lambda's body is a line of its own. */
static const char cpp[] =
    "static auto square = [](int x) {\n"
    "    volatile int y = x; return y * y;\n"
    "};\n"
    "namespace ns { static auto cube = [](int x) {\n"
    "    volatile int y = x; return y * y * y;\n"
    "}; }\n"
    "template <typename F> __attribute__((noinline)) int call(F f, int n) {\n"
    "    asm(\"\"); return f(n); }\n"
    "namespace app { struct Server { int value; int run(int n); };\n"
    "int Server::run(int n) {\n"
    "    auto twice = [this](int x) {\n"
    "        volatile int y = x * value; return y + 1;\n"
    "    };\n"
    "    auto thrice = [this](int x) {\n"
    "        volatile int y = x * value; return y + 3;\n"
    "    };\n"
    "    int sum = 0;\n"
    "    for (int i = 0; i < n; i++) sum += twice(i) + thrice(i);\n"
    "    return sum; } }\n"
    "namespace { int hidden(int n) {\n"
    "    auto f = [](int x) {\n"
    "        volatile int y = x; return y + 5;\n"
    "    };\n"
    "    return f(n); } }\n"
    "int main(int argc, char **) {\n"
    "    app::Server server{argc};\n"
    "    struct Local { int get(int x) {\n"
    "        volatile int y = x; return y + 6;\n"
    "    } } local;\n"
    "    auto outer = [&](int x) {\n"
    "        auto inner = [&](int z) {\n"
    "            volatile int y = z + argc; return y;\n"
    "        };\n"
    "        return inner(x) + call(inner, x);\n"
    "    };\n"
    "    return server.run(argc) + hidden(argc) + call(outer, argc) + square(argc) +\n"
    "           ns::cube(argc) + local.get(argc); }\n";

struct body {
    int line;
    const char *in; /* the start of the name */
    char name[512]; /* "" = not seen yet */
};

/* Names of several functions at one line would be those of copies; the last one counts. */
static void note(struct body *bodies, size_t count, const struct symbol_frame *frame) {
    for (size_t i = 0; i < count; i++)
        if (bodies[i].line == (int)frame->line && strstr(frame->file, "lambdas."))
            snprintf(bodies[i].name, sizeof bodies[i].name, "%s", frame->name);
}

/* Resolves the program's whole text. */
static void collect(const char *path, struct body *bodies, size_t count) {
    unsigned long long size, start;
    const char *text = fixture_line("objdump -h %s | awk '$2 == \".text\" {print $3, $4}'", path);
    CHECK_INT(sscanf(text, "%llx %llx", &size, &start), ==, 2);
    struct symbol_query *queries = calloc(size, sizeof *queries);
    struct symbol_answer *answers = calloc(size, sizeof *answers);
    struct symbol_store *store = corpus_store(NULL);
    struct symbol_module *module = fixture_module(store, path);
    struct sonde_arena arena = {0};
    CHECK(queries && answers);
    for (size_t i = 0; i < size; i++)
        queries[i] = (struct symbol_query){.module = module, .vaddr = start + i};
    CHECK_INT(symbol_resolve_wait(store, queries, size, 60000, &arena, answers), ==, SONDE_OK);
    for (size_t i = 0; i < size; i++)
        for (uint32_t k = 0; k < answers[i].frame_count; k++)
            note(bodies, count, &answers[i].frames[k]);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
    free(queries);
    free(answers);
}

static void check_bodies(const struct body *bodies, size_t count, const char *how) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(bodies[i].name, bodies[i].in, strlen(bodies[i].in)) != 0)
            check_fail(__FILE__, __LINE__, "%s: line %d is in %s", how, bodies[i].line,
                       bodies[i].name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(bodies[i].name, bodies[k].name) == 0)
                check_fail(__FILE__, __LINE__, "%s: lines %d and %d are both in %s", how,
                           bodies[k].line, bodies[i].line, bodies[i].name);
    }
}

static const struct body cpp_bodies[] = {
    {2, "", ""},
    {5, "", ""},
    {12, "app::Server::run(int)::", ""},
    {15, "app::Server::run(int)::", ""},
    {22, "(anonymous namespace)::hidden", ""},
    {28, "main::Local::get", ""},
    {32, "main::", ""},
};
#define CPP_BODIES (sizeof cpp_bodies / sizeof *cpp_bodies)

static void check_cpp(const char *compiler, const char *flags, struct body bodies[CPP_BODIES]) {
    char how[128];
    snprintf(how, sizeof how, "%s %s", compiler, flags);
    memcpy(bodies, cpp_bodies, sizeof cpp_bodies);
    fixture_write("lambdas.cc", cpp);
    fixture_must(compiler, "%s %s lambdas.cc -o lambdas", compiler, flags);
    collect(fixture_path("lambdas"), bodies, CPP_BODIES);
    check_bodies(bodies, CPP_BODIES, how);
}

TEST(each_lambda_has_a_name_of_its_own) {
    static const char *const flags[] = {"-g -O0", "-g -O2 -flto", "-g -O2"};
    struct body bodies[CPP_BODIES];
    for (int i = 0; i < 3; i++)
        check_cpp("g++", flags[i], bodies);
    for (int i = 0; i < 3; i += 2)
        check_cpp("clang++", flags[i], bodies);
}

TEST(a_lambda_that_gcc_inlined_is_numbered_in_its_function) {
    static const char *const names[CPP_BODIES] = {
        "{lambda#1 in lambdas.cc}::operator()",
        "ns::{lambda#2 in lambdas.cc}::operator()",
        "app::Server::run(int)::{lambda#1}::operator()",
        "app::Server::run(int)::{lambda#2}::operator()",
        "(anonymous namespace)::hidden::{lambda#1}::operator()",
        "main::Local::get",
        "main::{lambda#1}::operator()::{lambda#1}::operator()",
    };
    struct body bodies[CPP_BODIES];
    check_cpp("g++", "-g -O2", bodies);
    for (size_t i = 0; i < CPP_BODIES; i++)
        CHECK_STR(bodies[i].name, names[i]);
}

/* GCC writes the label of `write_all` into DWARF as its linkage name, as it does for libc, and
 * inlines the function into itself. */
TEST(a_c_function_has_its_public_name_instead_of_the_compilers_label) {
    struct symbol_store *store = corpus_store(NULL);
    fixture_write("alias.c", "extern int write_all(int x) __asm__(\"__GI___write_all\");\n"
                             "__attribute__((noipa)) int other(int x) { return x; }\n"
                             "int write_all(int x) {\n"
                             "    return x < 2 ? other(x) : write_all(x - 1) * 3 + "
                             "write_all(x - 2); }\n"
                             "extern int public_name(int x) __attribute__((weak, "
                             "alias(\"__GI___write_all\")));\n"
                             "int main(int argc, char **argv) { return public_name(argc); }\n");
    fixture_must("gcc", "gcc -g -O3 alias.c -o alias");
    uint64_t address = fixture_nm(fixture_path("alias"), "public_name");
    CHECK_INT(address, >, 0);
    struct symbol_module *module = fixture_module(store, fixture_path("alias"));
    struct sonde_arena arena = {0};
    uint32_t deepest = 0;
    for (uint64_t i = 0; i < 100; i++) {
        struct symbol_query query = {.module = module, .vaddr = address + i};
        struct symbol_answer answer;
        CHECK_INT(symbol_resolve_wait(store, &query, 1, 60000, &arena, &answer), ==, SONDE_OK);
        CHECK_INT(answer.quality, ==, SYMBOL_FULL);
        deepest = answer.frame_count > deepest ? answer.frame_count : deepest;
        for (uint32_t k = 0; k < answer.frame_count; k++)
            CHECK_STR(answer.frames[k].name, "public_name");
    }
    CHECK_INT(deepest, >, 1);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

static const char rust[] = "use std::hint::black_box;\n"
                           "mod m { pub fn run(n: u64) -> u64 {\n"
                           "  let a = |x: u64| {\n"
                           "    super::black_box(x) * 3\n"
                           "  };\n"
                           "  let b = |x: u64| {\n"
                           "    let c = |z: u64| {\n"
                           "      super::black_box(z) + 9\n"
                           "    };\n"
                           "    c(x) + c(x + 1) };\n"
                           "  let d = |x: u64| {\n"
                           "    let e = |z: u64| {\n"
                           "      super::black_box(z) + 4\n"
                           "    };\n"
                           "    e(x) };\n"
                           "  a(n) + b(n) + d(n) } }\n"
                           "fn main() {\n"
                           "  println!(\"{}\", m::run(black_box(3))); }\n";

TEST(each_closure_of_rust_has_a_name_of_its_own) {
    char program[256];
    snprintf(program, sizeof program, "%s", fixture_line("command -v rustc"));
    if (program[0] != '/')
        check_skip("rustc is not installed");
    fixture_write("lambdas.rs", rust);
    for (int level = 0; level <= 2; level += 2) {
        struct body bodies[] = {
            {4, "lambdas::m::run::{closure#0}", ""},
            {8, "lambdas::m::run::{closure#1}::{closure#0}", ""},
            {13, "lambdas::m::run::{closure#2}::{closure#0}", ""},
        };
        if (fixture_run("%s -g -Copt-level=%d "
                        "lambdas.rs -o lambdas",
                        program, level) != 0)
            check_skip("rustc does not compile here");
        collect(fixture_path("lambdas"), bodies, 3);
        check_bodies(bodies, 3, "rustc");
    }
}
