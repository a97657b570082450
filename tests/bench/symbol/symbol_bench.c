/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the goals G1 to G8 for symbols, and other symbolizers with the same file and the same
 * random addresses:
 *
 *     bazel run //tests/bench/symbol -- [FILE [ADDRESSES]]
 *
 * FILE must have .symtab, and DWARF to compare lines; without FILE a large C++ program is compiled.
 * Addresses are drawn from functions, weighted by their size. Times are CPU times; those of other
 * symbolizers are of the whole process. Memory is the peak of a process. */
#include "api/elf/elf.h"
#include "service/symbol/files/table_cache.h"
#include "service/symbol/lines/line_table.h"
#include "tests/bench/symbol/peers.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPARED     4096 /* addresses whose answers are compared */
#define EU_ADDRESSES 200  /* for eu-addr2line, which is slow */

struct draw {
    uint64_t *items;
    size_t count;
};

/* --- what is measured ------------------------------------------------------------------------- */

/* Compiles a program with many templates of the standard library: tens of megabytes of DWARF. */
static const char *make_program(void) {
    static const char unit[] =
        "#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n"
        "#include <string>\n#include <vector>\n"
        "template <int N> int work(int x) { std::vector<int> v(x); std::map<std::string, int> m;\n"
        "  for (int i = 0; i < x; i++) { v[i] = i * N; m[std::to_string(i % N)] += i; }\n"
        "  std::sort(v.begin(), v.end(), [](int a, int b) { return a % (N + 3) < b % (N + 3); });\n"
        "  std::regex r(\"a+b*(c|d)\" + std::to_string(N)); return v[0] + std::regex_match(\"ab\", "
        "r)\n"
        "    + (int)m.size(); }\n"
        "int CAT(int x); int CAT(int x) { int s = 0; EACH return s; }\n";
    fixture_write("unit.cc", unit);
    fixture_must(
        "g++",
        "n=12; for i in $(seq $n); do each=; for j in 1 2 3 4 5 6; do "
        "each=\"$each s += work<$((i * 6 + j))>(x);\"; done; "
        "g++ -g -O2 -DCAT=unit_$i \"-DEACH=$each\" -c unit.cc -o u$i.o || exit 1; done; "
        "{ for i in $(seq $n); do echo \"int unit_$i(int);\"; done; echo 'int main(int c, char **) "
        "{ int s = 0;'; for i in $(seq $n); do echo \"s += unit_$i(c);\"; done; "
        "echo 'return s; }'; } > main.cc && g++ -g -O2 main.cc u*.o -o large");
    static char path[PATH_MAX]; /* fixture_path reuses its buffers */
    snprintf(path, sizeof path, "%s", fixture_path("large"));
    return path;
}

static uint64_t dwarf_bytes(const char *path) {
    struct elf_input input;
    struct elf_file elf = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t bytes = 0;
    if (elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK) {
        const Elf64_Shdr *info = elf_section(&elf, ".debug_info");
        bytes = info ? info->sh_size : 0;
    }
    elf_finish(&elf);
    close(fd);
    return bytes;
}

/* Random addresses in the named functions. */
static struct draw draw_addresses(const struct symbol_table *names, size_t count) {
    struct draw draw = {calloc(count, sizeof(uint64_t)), 0};
    uint64_t random = 88172645463325252ull;
    while (draw.count < count && names->segments.span > 0) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t address = names->header->base + random % names->segments.span;
        if (symbol_table_find(names, address) != SYMBOL_NO_SYMBOL)
            draw.items[draw.count++] = address;
    }
    return draw;
}

static void write_addresses(const struct draw *draw, size_t count) {
    FILE *file = fopen(fixture_path("addresses"), "w");
    CHECK(file);
    for (size_t i = 0; i < count && i < draw->count; i++)
        fprintf(file, "0x%llx\n", (unsigned long long)draw->items[i]);
    fclose(file);
}

static void row(const char *name, const char *what, double value, const char *unit) {
    printf("%-4s %-60s %12.3f %s\n", name, what, value, unit);
}

enum side { AT_LEAST, AT_MOST };

/* Prints a row with its goal. */
static void goal(const char *name, const char *what, double value, const char *unit, double wanted,
                 enum side side) {
    bool met = side == AT_LEAST ? value >= wanted : value <= wanted;
    printf("%-4s %-60s %12.3f %-16s %s %g: %s\n", name, what, value, unit,
           side == AT_LEAST ? ">=" : "<=", wanted, met ? "met" : "MISSED");
}

/* --- ours ------------------------------------------------------------------------------------- */

static volatile uint64_t sink;

static void measure_names(const struct symbol_table *names, const struct draw *draw) {
    double before = peer_own_cpu();
    size_t done = 0;
    while (peer_own_cpu() - before < 0.5) {
        for (size_t i = 0; i < draw->count; i++)
            sink += symbol_table_find(names, draw->items[i]);
        done += draw->count;
    }
    goal("G1", "names, warm table, one core", (double)done / (peer_own_cpu() - before) / 1e6,
         "M addresses/s", 20, AT_LEAST);
}

static void measure_full(const struct line_table *full, const struct draw *draw) {
    double before = peer_own_cpu();
    size_t done = 0;
    while (peer_own_cpu() - before < 0.5) {
        for (size_t i = 0; i < draw->count; i++) {
            uint32_t node = line_table_find_node(full, draw->items[i]), file = 0, line = 0;
            for (; node < full->header->node_count; node = full->nodes[node].parent)
                sink += full->nodes[node].function;
            if (line_table_find_line(full, draw->items[i], &file, &line))
                sink += line;
        }
        done += draw->count;
    }
    goal("G2", "full with inlines, warm table, one core",
         (double)done / (peer_own_cpu() - before) / 1e6, "M addresses/s", 5, AT_LEAST);
}

static double measure_answers(struct symbol_store *store, struct symbol_module *module,
                              const struct draw *draw) {
    struct symbol_query *queries = calloc(draw->count, sizeof *queries);
    struct symbol_answer *answers = calloc(draw->count, sizeof *answers);
    struct sonde_arena arena = {0};
    for (size_t i = 0; i < draw->count; i++)
        queries[i] = (struct symbol_query){.module = module, .vaddr = draw->items[i]};
    double before = peer_own_cpu();
    CHECK_INT(symbol_resolve(store, queries, draw->count, &arena, answers), ==, SONDE_OK);
    double cost = peer_own_cpu() - before;
    row("", "whole answers (demangled text), first time", (double)draw->count / cost / 1e6,
        "M addresses/s");
    sonde_arena_finish(&arena);
    before = peer_own_cpu();
    CHECK_INT(symbol_resolve(store, queries, draw->count, &arena, answers), ==, SONDE_OK);
    row("", "whole answers (demangled text), again",
        (double)draw->count / (peer_own_cpu() - before) / 1e6, "M addresses/s");
    sonde_arena_finish(&arena);
    free(queries);
    free(answers);
    return cost;
}

static long own_peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Resolves one address, which builds the tables that it needs. */
static enum symbol_quality ask(struct symbol_store *store, struct symbol_module *module,
                               uint32_t wait_ms) {
    struct sonde_arena arena = {0};
    struct symbol_query query = {.module = module, .vaddr = 0};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve_wait(store, &query, 1, wait_ms, &arena, &answer), ==, SONDE_OK);
    sonde_arena_finish(&arena);
    return answer.quality;
}

/* Opens the only table of that kind in the cache. */
static struct symbol_image open_table(const char *kind) {
    struct symbol_image image = {0};
    const char *path = fixture_line("ls -d $PWD/cache/*.%s", kind);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(symbol_image_map(fd, &image), ==, SONDE_OK);
    close(fd);
    return image;
}

/* False if the file has no DWARF. */
static bool convert(struct symbol_store *store, struct symbol_module *module, uint64_t dwarf,
                    struct line_table *full) {
    double before = peer_children_cpu();
    if (ask(store, module, 900000) != SYMBOL_FULL)
        return false;
    double cost = peer_children_cpu() - before;
    struct symbol_image image = open_table("lines");
    CHECK_INT(line_table_open(image.bytes, image.len, NULL, false, full), ==, SONDE_OK);
    row("G4", "conversion of all DWARF, CPU of the worker", cost, "s");
    goal("G4", "the same for 100 MB of .debug_info", cost * 1e8 / (double)dwarf, "s", 0.8, AT_MOST);
    goal("G5", "peak memory of the worker", (double)peer_children_peak_kib() / 1024, "MiB", 256,
         AT_MOST);
    goal("G6", "table by .debug_info", (double)image.len / (double)dwarf, "", 0.15, AT_MOST);
    return true;
}

/* --- peers ------------------------------------------------------------------------------------ */

static void run_peer(const char *name, const char *command, const char *path, size_t count,
                     double ours_s) {
    struct peer_cost cost =
        peer_run("exec %s %s < %s > /dev/null 2>&1", command, path, fixture_path("addresses"));
    char what[128];
    if (!cost.ran) {
        printf("     %s did not run\n", name);
        return;
    }
    snprintf(what, sizeof what, "%s, %zu addresses, whole process", name, count);
    row("", what, cost.cpu_s, "s CPU");
    row("", "    its peak memory", (double)cost.peak_kib / 1024, "MiB");
    if (ours_s > 0)
        row("", "    times what our answers cost", cost.cpu_s / ours_s, "x");
}

static void measure_peers(const char *path, const struct draw *draw, double ours_s) {
    write_addresses(draw, draw->count);
    run_peer("llvm-symbolizer", "llvm-symbolizer --inlines -e", path, draw->count, ours_s);
    run_peer("addr2line -fiC", "addr2line -fiC -e", path, draw->count, ours_s);
    size_t few = draw->count < EU_ADDRESSES ? draw->count : EU_ADDRESSES;
    write_addresses(draw, few);
    run_peer("eu-addr2line -fiC", "eu-addr2line -fiC -e", path, few, 0);
}

static void measure_agreement(const char *path, const struct draw *draw, enum corpus_peer peer,
                              const char *name, size_t most) {
    static struct corpus_addresses addresses;
    struct symbol_store *store = corpus_store(fixture_path("cache"));
    corpus_addresses(path, &addresses); /* lists the names of all symbols */
    most = most < draw->count ? most : draw->count;
    for (addresses.count = 0; addresses.count < most; addresses.count++)
        addresses.items[addresses.count] = draw->items[addresses.count];
    struct corpus_agreement agreement = corpus_compare(store, path, &addresses, peer);
    double share = 100.0 / (double)agreement.count;
    printf("     %zu addresses beside %s:\n", agreement.count, name);
    goal("G8", "same outer function", (double)agreement.outer * share, "%", 99.5, AT_LEAST);
    goal("G8", "same leaf line", (double)agreement.leaf_line * share, "%", 99.5, AT_LEAST);
    row("G8", "same number of frames", (double)agreement.frames * share, "%");
    row("G8", "all the same", (double)agreement.whole * share, "%");
    for (int i = 0; i < CORPUS_DIFFERENCES; i++)
        if (agreement.differences[i] > 0)
            row("", corpus_difference_text((enum corpus_difference)i),
                (double)agreement.differences[i] * share, "%");
    symbol_store_destroy(store);
}

static void measure_agreements(const char *path, const struct draw *draw) {
    measure_agreement(path, draw, CORPUS_LLVM, "llvm-symbolizer", COMPARED);
    measure_agreement(path, draw, CORPUS_ADDR2LINE, "addr2line", COMPARED);
    measure_agreement(path, draw, CORPUS_EU, "eu-addr2line", EU_ADDRESSES);
}

/* --- the run ---------------------------------------------------------------------------------- */

static const char *chosen_file;
static size_t chosen_count = 10000;

static void cold_names(const char *path, struct symbol_table *names) {
    struct symbol_store *store = fixture_store(fixture_path("cache"), NULL);
    struct symbol_module *module = fixture_module(store, path);
    long peak = own_peak_kib();
    double before = peer_own_cpu() + peer_children_cpu();
    CHECK_INT(ask(store, module, 0), !=, SYMBOL_NONE);
    goal("G3", "names ready, cold, with the worker's CPU",
         (peer_own_cpu() + peer_children_cpu() - before) * 1e3, "ms CPU", 60, AT_MOST);
    goal("G3", "    extra peak memory of the service", (double)(own_peak_kib() - peak) / 1024,
         "MiB", 25, AT_MOST);
    struct symbol_image image = open_table("symbols");
    CHECK_INT(symbol_table_open(image.bytes, image.len, NULL, false, names), ==, SONDE_OK);
    row("", "    symbols", names->header->symbol_count, "");
    symbol_module_release(module);
    symbol_store_destroy(store);
}

static void reopen(const char *path) {
    struct symbol_store *store = fixture_store(fixture_path("cache"), NULL);
    struct symbol_module *module = fixture_module(store, path);
    double before = peer_own_cpu();
    ask(store, module, 0);
    goal("G7", "a table again after a restart (half of both)", (peer_own_cpu() - before) * 1e3 / 2,
         "ms CPU", 1, AT_MOST);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

static void measure(const char *path) {
    struct symbol_table names;
    struct line_table full;
    uint64_t dwarf = dwarf_bytes(path);
    cold_names(path, &names);
    struct draw draw = draw_addresses(&names, chosen_count);
    printf("     %s, %.1f MB of .debug_info, %zu addresses\n", path, (double)dwarf / 1e6,
           draw.count);
    measure_names(&names, &draw);
    struct symbol_store *store = corpus_store(fixture_path("cache"));
    struct symbol_module *module = fixture_module(store, path);
    bool has_lines = convert(store, module, dwarf, &full);
    if (has_lines)
        measure_full(&full, &draw);
    double ours_s = measure_answers(store, module, &draw);
    symbol_module_release(module);
    symbol_store_destroy(store);
    reopen(path);
    measure_peers(path, &draw, ours_s);
    if (has_lines)
        measure_agreements(path, &draw);
    free(draw.items);
}

/* Runs in a child process, whose children are the worker and the peers, but no compiler. */
TEST(symbols_beside_their_peers) {
    const char *path = chosen_file ? chosen_file : make_program();
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        measure(path);
        fflush(stdout);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
}

/* Runs before check.c, which would take FILE and ADDRESSES for names of tests. */
__attribute__((constructor)) static void read_arguments(int argc, char **argv) {
    static char path[PATH_MAX];
    if (argc > 1 && realpath(argv[1], path))
        chosen_file = path;
    if (argc > 2)
        chosen_count = strtoul(argv[2], NULL, 10);
    for (int i = 1; i < argc; i++)
        argv[i] = (char *)""; /* part of every name */
}
