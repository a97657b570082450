/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbol/dwarf/corpus.h"

#include "service/symbol/demangle.h"
#include "tests/unit/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char one[] =
    "#include <stdexcept>\n"
    "#include <string>\n"
    "#include <vector>\n"
    "#include <algorithm>\n"
    "extern \"C\" int two(int x);\n"
    "namespace {\n"
    "struct Hidden {\n"
    "    int value;\n"
    "    __attribute__((noinline)) int get(int x) { asm(\"\"); return x + value; }\n"
    "};\n"
    "inline int innermost(int x) { volatile int y = x * 7; return y + 1; }\n"
    "inline int middle(int x) { return innermost(x) + innermost(x + 1); }\n"
    "__attribute__((noinline)) int unnamed(int x) { asm(\"\"); return middle(x) * 3; }\n"
    "}\n"
    "namespace space {\n"
    "struct Base { Base(int x); virtual ~Base(); virtual int run(int x); int field; };\n"
    "__attribute__((noinline)) Base::Base(int x) : field(x) { asm(\"\"); }\n"
    "__attribute__((noinline)) Base::~Base() { asm(\"\"); field = 0; }\n"
    "__attribute__((noinline)) int Base::run(int x) {\n"
    "    if (x > 1000) throw std::runtime_error(\"too much \" + std::to_string(x));\n"
    "    return unnamed(x) + middle(field);\n"
    "}\n"
    "template <int N> __attribute__((noinline)) int sorted(std::vector<int> v) {\n"
    "    std::sort(v.begin(), v.end(), [](int a, int b) { return a % N < b % N; });\n"
    "    return v.empty() ? N : v[0];\n"
    "}\n"
    "}\n"
    "int main(int argc, char **argv) {\n"
    "    Hidden hidden{argc};\n"
    "    space::Base base(argc);\n"
    "    std::vector<int> v;\n"
    "    for (int i = 0; i < argc + 10; i++) v.push_back(i * 37 % 11);\n"
    "    try { base.run(argc); } catch (const std::exception &error) { return "
    "(int)error.what()[0]; }\n"
    "    return hidden.get(space::sorted<3>(v) + space::sorted<5>(v)) + two(argc);\n"
    "}\n";

static const char two[] = "static inline int leaf(int x) { volatile int y = x; return y ^ 0x55; }\n"
                          "static int __attribute__((noinline)) rare(int x) { __asm__ "
                          "volatile(\"\"); return leaf(x) + 2; }\n"
                          "static int __attribute__((noinline)) helper(int x, int *unused) {\n"
                          "    __asm__ volatile(\"\");\n"
                          "    if (__builtin_expect(x == 77, 0)) { for (int i = 0; i < x; i++) x "
                          "+= rare(i); __builtin_abort(); }\n"
                          "    return leaf(x) + leaf(x + 1);\n"
                          "}\n"
                          "int discarded(int x);\n"
                          "int discarded(int x) { int sum = 0; for (int i = 0; i < x; i++) sum += "
                          "leaf(i) * helper(x, &sum);\n"
                          "    return sum; }\n"
                          "int two(int x);\n"
                          "int from_assembly(int x);\n"
                          "int two(int x) { return helper(x, 0) + rare(x) + from_assembly(x); }\n";

static const char start[] = ".text\n.globl from_assembly\n.type from_assembly, @function\n"
                            "from_assembly:\n  leal 1(%rdi), %eax\n  nop\n  ret\n"
                            ".size from_assembly, .-from_assembly\n"
                            ".section .note.GNU-stack,\"\",@progbits\n";

void corpus_write(void) {
    fixture_write("one.cc", one);
    fixture_write("two.c", two);
    fixture_write("start.s", start);
}

const char *corpus_worker(void) {
    static char path[PATH_MAX];
    if (path[0] == 0)
        CHECK(realpath("tests/unit/symbol/worker", path));
    return path;
}

struct symbol_store *corpus_store(const char *cache_dir) {
    struct symbol_options options = {
        .cache_dir = cache_dir, .debug_roots = fixture_dir(), .worker = corpus_worker()};
    struct symbol_store *store;
    struct sonde_diag diag = {0};
    if (symbol_store_create(&options, &store, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}

void corpus_addresses(const char *path, struct corpus_addresses *addresses) {
    char line[4096], type;
    unsigned long long start_address, size;
    addresses->count = 0;
    CHECK_INT(fixture_run("nm -S --defined-only %s > nm.out", path), ==, 0);
    FILE *file = fopen(fixture_path("nm.out"), "r");
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%llx %llx %c", &start_address, &size, &type) != 3 ||
            !strchr("tTwW", type))
            continue;
        unsigned long long step = size / 12 + 1;
        for (unsigned long long at = 0; at < size && addresses->count < 4096; at += step)
            addresses->items[addresses->count++] = start_address + at;
    }
    fclose(file);
    CHECK_INT(addresses->count, >, 50);
}

static void render_one(const struct symbol_answer *answer, struct sonde_buf *text) {
    if (answer->frame_count == 0)
        sonde_buf_puts(text, "??|??:0\n");
    for (uint32_t i = 0; i < answer->frame_count; i++) {
        const struct symbol_frame *frame = &answer->frames[i];
        sonde_buf_printf(text, "%s|%s:%u\n", frame->system_name,
                         frame->file[0] ? frame->file : "??", frame->line);
    }
    sonde_buf_putc(text, '\n');
}

char *corpus_render(struct symbol_store *store, const char *path,
                    const struct corpus_addresses *addresses) {
    struct symbol_module *module = fixture_module(store, path);
    struct symbol_query *queries = calloc(addresses->count, sizeof *queries);
    struct symbol_answer *answers = calloc(addresses->count, sizeof *answers);
    struct sonde_arena arena = {0};
    struct sonde_buf text = {0};
    for (size_t i = 0; i < addresses->count; i++)
        queries[i] = (struct symbol_query){.module = module, .vaddr = addresses->items[i]};
    CHECK_INT(symbol_resolve_wait(store, queries, addresses->count, 60000, &arena, answers), ==,
              SONDE_OK);
    for (size_t i = 0; i < addresses->count; i++) {
        CHECK_INT(answers[i].quality, ==, SYMBOL_FULL);
        render_one(&answers[i], &text);
    }
    free(queries);
    free(answers);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    size_t len;
    return sonde_buf_take(&text, &len);
}

/* --- peers ------------------------------------------------------------------------------------ */

static char *read_file(const char *path) {
    struct sonde_buf text = {0};
    char piece[65536];
    FILE *file = fopen(path, "r");
    CHECK(file);
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        sonde_buf_append(&text, piece, got);
    fclose(file);
    size_t len;
    return sonde_buf_take(&text, &len);
}

static char *ask_peer(enum corpus_peer peer, const char *path,
                      const struct corpus_addresses *addresses) {
    static const char *const commands[][2] = {
        [CORPUS_LLVM] = {"llvm-symbolizer", "llvm-symbolizer --inlines --no-demangle --obj="},
        [CORPUS_ADDR2LINE] = {"addr2line", "addr2line -a -f -i -e "},
        [CORPUS_EU] = {"eu-addr2line", "eu-addr2line -a -f -i -e "},
    };
    FILE *file = fopen(fixture_path("in.txt"), "w");
    CHECK(file);
    for (size_t i = 0; i < addresses->count; i++)
        fprintf(file, "0x%llx\n", (unsigned long long)addresses->items[i]);
    fclose(file);
    fixture_must(commands[peer][0], "%s%s < in.txt > peer.txt", commands[peer][1], path);
    return read_file(fixture_path("peer.txt"));
}

/* The frames of one address: name and file:line without the column, as the peer printed them and as
 * they are compared. */
struct frame {
    char raw_name[512], raw_line[512];
    char name[512], line[512];
};

struct block {
    struct frame frames[64];
    size_t count;
};

static void fold(char *name) {
    name[symbol_clone_base(name, strlen(name))] = 0;
    /* Peers show no scope for functions without a linkage name; Sonde builds it. */
    char *scope = name[0] == '_' ? NULL : strstr(name, "::"), *last = scope;
    for (; scope; scope = strstr(scope + 2, "::"))
        last = scope;
    if (last)
        memmove(name, last + 2, strlen(last + 2) + 1);
    for (char *at = name; *at; at++) /* variants C1 and C2, D0 to D4 */
        if ((at[0] == 'C' || at[0] == 'D') && at[1] >= '0' && at[1] <= '5' && at[2] &&
            strchr("EIRvi", at[2]))
            at[1] = 'x';
}

/* "/a/./b/../c" → "/a/c", which only some peers do. */
static void normalise(const char *from, char *to, size_t size) {
    char parts[64][128];
    size_t count = 0;
    for (const char *at = from; *at;) {
        size_t len = strcspn(at, "/");
        bool up = len == 2 && strncmp(at, "..", 2) == 0;
        if (up && count > 0)
            count--;
        else if (len > 0 && !(len == 1 && *at == '.') && count < 64)
            snprintf(parts[count++], 128, "%.*s", (int)len, at);
        at += len + (at[len] == '/');
    }
    to[0] = 0;
    for (size_t i = 0, used = 0; i < count && used < size; i++)
        used += (size_t)snprintf(to + used, size - used, "/%s", parts[i]);
}

static const char *next_line(const char *text, char *line, size_t size) {
    size_t len = strcspn(text, "\n");
    snprintf(line, size, "%.*s", (int)len, text);
    return text + len + (text[len] == '\n');
}

static void add_frame(struct block *block, const char *name, const char *line) {
    if (block->count == sizeof block->frames / sizeof *block->frames)
        return;
    struct frame *frame = &block->frames[block->count++];
    snprintf(frame->raw_name, sizeof frame->raw_name, "%s", name);
    snprintf(frame->raw_line, sizeof frame->raw_line, "%s", line);
    snprintf(frame->name, sizeof frame->name, "%s", name);
    fold(frame->name);
    normalise(line, frame->line, sizeof frame->line);
}

static const char *next_ours(const char *text, struct block *block) {
    char line[2048];
    block->count = 0;
    while (*text && *(text = next_line(text, line, sizeof line), line)) {
        char *bar = strrchr(line, '|');
        *bar = 0;
        add_frame(block, line, bar + 1);
    }
    return text;
}

static const char *next_llvm(const char *text, struct block *block) {
    char name[2048], line[2048];
    block->count = 0;
    while (*text && *(text = next_line(text, name, sizeof name), name)) {
        text = next_line(text, line, sizeof line);
        *strrchr(line, ':') = 0; /* the column */
        add_frame(block, name, line);
    }
    return text;
}

/* An address, then pairs of lines up to the next one. */
static const char *next_addr2line(const char *text, struct block *block) {
    char name[2048], line[2048];
    block->count = 0;
    text = next_line(text, name, sizeof name);
    while (*text && strncmp(text, "0x", 2) != 0) {
        text = next_line(text, name, sizeof name);
        text = next_line(text, line, sizeof line);
        char *more = strstr(line, " (discriminator");
        char *inlined = strstr(name, " inlined at ");
        if (more)
            *more = 0;
        if (inlined)
            *inlined = 0;
        size_t len = strlen(line);
        if (len > 2 && strcmp(line + len - 2, ":?") == 0)
            line[len - 1] = '0';
        add_frame(block, name, line);
    }
    return text;
}

/* eu-addr2line prints "file:line:column". */
static const char *next_eu(const char *text, struct block *block) {
    text = next_addr2line(text, block);
    for (size_t i = 0; i < block->count; i++) {
        struct frame *frame = &block->frames[i];
        char *column = strrchr(frame->raw_line, ':');
        if (!column)
            continue;
        *column = 0;
        if (strrchr(frame->raw_line, ':'))
            normalise(frame->raw_line, frame->line, sizeof frame->line);
        else
            *column = ':';
    }
    return text;
}

/* --- comparing -------------------------------------------------------------------------------- */

static bool has_no_line(const char *line) {
    size_t len = strlen(line);
    return len > 2 && strcmp(line + len - 2, ":0") == 0;
}

/* A line of 0 means no line. llvm-symbolizer shows the file then, and Sonde need not. */
static bool same_line(const char *a, const char *b) {
    return strcmp(a, b) == 0 || (has_no_line(a) && has_no_line(b));
}

/* The address of a symbol in nm's output; 0 = not found. */
static unsigned long long address_of(const char *nm, const char *name) {
    char wanted[600];
    snprintf(wanted, sizeof wanted, " %s\n", name);
    const char *at = strstr(nm, wanted);
    while (at && at > nm && at[-1] != '\n')
        at--;
    return at ? strtoull(at, NULL, 16) : 0;
}

/* Functions with identical code, which the linker folded, share an address; any of their names is
 * right. */
static bool same_function(const char *nm, const char *a, const char *b) {
    if (strcmp(a, b) == 0)
        return true;
    unsigned long long address = address_of(nm, a);
    return address != 0 && address == address_of(nm, b);
}

static bool same_whole(const char *nm, const struct block *a, const struct block *b) {
    for (size_t i = 0; i < a->count; i++)
        if (!same_function(nm, a->frames[i].name, b->frames[i].name) ||
            !same_line(a->frames[i].line, b->frames[i].line))
            return false;
    return true;
}

static void tell(uint64_t address, const struct block *ours, const struct block *llvm) {
    fprintf(stderr, "0x%llx\n", (unsigned long long)address);
    for (size_t i = 0; i < ours->count || i < llvm->count; i++)
        fprintf(stderr, "    %s %s <> %s %s\n", i < ours->count ? ours->frames[i].name : "-",
                i < ours->count ? ours->frames[i].line : "-",
                i < llvm->count ? llvm->frames[i].name : "-",
                i < llvm->count ? llvm->frames[i].line : "-");
}

/* --- classes of differences ------------------------------------------------------------------- */

static bool ends_with_scope(const char *whole, const char *name) {
    size_t len = strlen(whole), part = strlen(name);
    return part + 2 <= len && strcmp(whole + len - part, name) == 0 &&
           strncmp(whole + len - part - 2, "::", 2) == 0;
}

static enum corpus_difference name_difference(const char *nm, const struct frame *ours,
                                              const struct frame *theirs) {
    const char *a = ours->raw_name, *b = theirs->raw_name;
    size_t len = symbol_clone_base(a, strlen(a));
    if (strstr(a, "@plt"))
        return CORPUS_PLT;
    if (strcmp(b, "??") == 0)
        return CORPUS_ONLY_WE_NAME;
    if (len == symbol_clone_base(b, strlen(b)) && strncmp(a, b, len) == 0)
        return CORPUS_CLONE_SUFFIX;
    if (ends_with_scope(a, b) || ends_with_scope(b, a))
        return CORPUS_SCOPE;
    if (strcmp(ours->name, theirs->name) == 0)
        return CORPUS_COPY_OF_CONSTRUCTOR;
    return same_function(nm, ours->name, theirs->name) ? CORPUS_ALIAS : CORPUS_OTHER_NAME;
}

static enum corpus_difference line_difference(const struct frame *ours,
                                              const struct frame *theirs) {
    if (has_no_line(ours->line) != has_no_line(theirs->line))
        return CORPUS_ONLY_ONE_HAS_A_LINE;
    if (same_line(ours->line, theirs->line))
        return CORPUS_PATH;
    size_t len = strcspn(ours->line, ":");
    bool same_file = len == strcspn(theirs->line, ":") && !strncmp(ours->line, theirs->line, len);
    return same_file ? CORPUS_OTHER_LINE : CORPUS_OTHER_FILE;
}

/* Counts each class at most once per address. */
static void classify(const char *nm, const struct block *ours, const struct block *theirs,
                     size_t counts[CORPUS_DIFFERENCES]) {
    bool seen[CORPUS_DIFFERENCES] = {false};
    if (ours->count != theirs->count)
        seen[ours->count > theirs->count ? CORPUS_MORE_FRAMES : CORPUS_FEWER_FRAMES] = true;
    for (size_t i = 0; i < ours->count && ours->count == theirs->count; i++) {
        const struct frame *a = &ours->frames[i], *b = &theirs->frames[i];
        if (strcmp(a->raw_name, b->raw_name) != 0)
            seen[name_difference(nm, a, b)] = true;
        if (strcmp(a->raw_line, b->raw_line) != 0)
            seen[line_difference(a, b)] = true;
    }
    for (int i = 0; i < CORPUS_DIFFERENCES; i++)
        counts[i] += seen[i];
}

const char *corpus_difference_text(enum corpus_difference difference) {
    static const char *const texts[CORPUS_DIFFERENCES] = {
        [CORPUS_CLONE_SUFFIX] = "name: with and without a clone suffix (.cold, .isra, .part)",
        [CORPUS_COPY_OF_CONSTRUCTOR] = "name: another copy of a constructor or destructor",
        [CORPUS_SCOPE] = "name: with and without its scope (no linkage name in DWARF)",
        [CORPUS_ALIAS] = "name: another name of the same address (alias, folded code)",
        [CORPUS_PLT] = "name: a jump to another library, which theirs does not know",
        [CORPUS_ONLY_WE_NAME] = "name: only ours (code without DWARF)",
        [CORPUS_OTHER_NAME] = "name: another function",
        [CORPUS_PATH] = "line: the same file spelled otherwise, or no line in both",
        [CORPUS_ONLY_ONE_HAS_A_LINE] = "line: 0 or none in one of the two",
        [CORPUS_OTHER_LINE] = "line: another one of the same file",
        [CORPUS_OTHER_FILE] = "line: another file",
        [CORPUS_MORE_FRAMES] = "frames: more inlined calls than theirs",
        [CORPUS_FEWER_FRAMES] = "frames: fewer inlined calls than theirs",
    };
    return texts[difference];
}

typedef const char *read_block(const char *text, struct block *block);

struct corpus_agreement corpus_compare(struct symbol_store *store, const char *path,
                                       const struct corpus_addresses *addresses,
                                       enum corpus_peer peer) {
    static read_block *const readers[] = {next_llvm, next_addr2line, next_eu};
    struct corpus_agreement agreement = {.count = addresses->count};
    static struct block ours, theirs;
    char *our_text = corpus_render(store, path, addresses);
    char *their_text = ask_peer(peer, path, addresses);
    const char *our_at = our_text, *their_at = their_text;
    char *nm = read_file(fixture_path("nm.out"));
    int told = 0;
    for (size_t i = 0; i < addresses->count; i++) {
        our_at = next_ours(our_at, &ours);
        their_at = readers[peer](their_at, &theirs);
        CHECK(ours.count > 0 && theirs.count > 0);
        bool outer = same_function(nm, ours.frames[ours.count - 1].name,
                                   theirs.frames[theirs.count - 1].name);
        bool line = same_line(ours.frames[0].line, theirs.frames[0].line);
        bool frames = ours.count == theirs.count;
        agreement.outer += outer;
        agreement.leaf_line += line;
        agreement.frames += frames;
        agreement.whole += frames && same_whole(nm, &ours, &theirs);
        classify(nm, &ours, &theirs, agreement.differences);
        if (peer == CORPUS_LLVM && (!outer || !line || !frames) && told++ < 4)
            tell(addresses->items[i], &ours, &theirs);
    }
    free(nm);
    free(our_text);
    free(their_text);
    return agreement;
}

/* --- goals ------------------------------------------------------------------------------------ */

void corpus_check(const char *path, const char *how) {
    static struct corpus_addresses addresses;
    struct symbol_store *store = corpus_store(NULL);
    corpus_addresses(path, &addresses);
    struct corpus_agreement agreement = corpus_compare(store, path, &addresses, CORPUS_LLVM);
    symbol_store_destroy(store);
    double count = (double)agreement.count;
    if ((double)agreement.outer / count < 0.995 || (double)agreement.leaf_line / count < 0.995 ||
        (double)agreement.frames / count < 0.99 || (double)agreement.whole / count < 0.97)
        check_fail(__FILE__, __LINE__,
                   "%s: of %zu addresses: outer %zu, line %zu, frames %zu, whole %zu", how,
                   agreement.count, agreement.outer, agreement.leaf_line, agreement.frames,
                   agreement.whole);
}

const char *corpus_compile(const char *family, const char *flags, const char *link) {
    const char *cpp = strcmp(family, "gcc") == 0 ? "g++" : "clang++";
    corpus_write();
    fixture_must(family,
                 "rm -f prog *.dwo && %s %s -c two.c -o two.o && %s %s -c one.cc -o one.o && "
                 "%s -c start.s -o start.o && %s %s %s one.o two.o start.o -o prog",
                 family, flags, cpp, flags, family, cpp, flags, link);
    return fixture_path("prog");
}
