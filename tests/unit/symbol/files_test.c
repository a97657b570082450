/* SPDX-License-Identifier: Apache-2.0
 *
 * Files independent of a process: uploads and their errors, modules by build-id, the list,
 * eviction. */
#include "service/symbol/files/files.h"

#include "service/symbol/files/file_info.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE                                                          \
    "static inline __attribute__((always_inline)) int twice(int x) {\n" \
    "    volatile int y = x;\n"                                         \
    "    return y * 2;\n"                                               \
    "}\n"                                                               \
    "__attribute__((noinline)) int planted(int x) {\n"                  \
    "    return twice(x) + 1;\n"                                        \
    "}\n"                                                               \
    "int main(int argc, char **argv) { return planted(argc); }\n"

/* Compiles `full` with DWARF, `bare`, which is stripped, and its debug file `part.debug`. */
static void compile(void) {
    fixture_write("planted.c", SOURCE);
    fixture_must("gcc", "gcc -g -O1 -Wl,--build-id=sha1 planted.c -o full && "
                        "objcopy --only-keep-debug full part.debug && strip -o bare full");
    fixture_run("rm -rf cache");
}

static struct symbol_store *open_store(uint64_t upload_bytes, bool converts) {
    struct symbol_options options = {.cache_dir = fixture_path("cache"),
                                     .debug_roots = fixture_path("nothing"),
                                     .upload_bytes = upload_bytes,
                                     .worker = converts ? corpus_worker() : NULL};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    return store;
}

static char *read_all(const char *path, size_t *len) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    char *bytes = malloc((size_t)info.st_size + 1);
    CHECK(bytes && read(fd, bytes, (size_t)info.st_size) == info.st_size);
    close(fd);
    *len = (size_t)info.st_size;
    return bytes;
}

/* Uploads a file in pieces, as they arrive over the network. */
static sonde_err upload(struct symbol_store *store, const char *bytes, size_t len,
                        struct symbol_file *file, struct sonde_diag *diag) {
    struct symbol_upload *made;
    sonde_err err = symbol_upload_begin(store, len, &made, diag);
    if (err)
        return err;
    for (size_t at = 0; at < len && !err; at += 1000)
        err = symbol_upload_write(made, bytes + at, len - at < 1000 ? len - at : 1000, diag);
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_INT(symbol_upload_missing(made), ==, 0);
    return symbol_upload_finish(made, file, diag);
}

static sonde_err upload_path(struct symbol_store *store, const char *path, struct symbol_file *file,
                             struct sonde_diag *diag) {
    size_t len;
    char *bytes = read_all(path, &len);
    sonde_err err = upload(store, bytes, len, file, diag);
    free(bytes);
    return err;
}

static const char *build_id_of(const char *path) {
    static char text[SYMBOL_BUILD_ID_TEXT];
    snprintf(text, sizeof text, "%s",
             fixture_line("readelf -n %s | awk '/Build ID/ {print $3}'", path));
    return text;
}

static struct symbol_answer ask(struct symbol_store *store, struct symbol_module *module,
                                uint64_t vaddr, struct sonde_arena *arena) {
    struct symbol_query query = {.module = module, .vaddr = vaddr};
    struct symbol_answer answer;
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, arena, &answer), ==, SONDE_OK);
    return answer;
}

static void check_planted(struct symbol_store *store, struct symbol_module *module) {
    struct sonde_arena arena = {0};
    struct symbol_answer answer =
        ask(store, module, fixture_nm(fixture_path("full"), "planted") + 4, &arena);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_INT(answer.frame_count, ==, 2);
    CHECK_STR(answer.frames[0].name, "twice");
    CHECK_STR(answer.frames[1].name, "planted");
    CHECK_INT(answer.frames[1].line, ==, 6);
    CHECK_STR(symbol_module_shortfall(module), "");
    sonde_arena_finish(&arena);
}

static const struct symbol_file *find(const struct symbol_file *files, size_t count,
                                      enum symbol_file_kind kind, const char *build_id) {
    for (size_t i = 0; i < count; i++)
        if (files[i].kind == kind && strcmp(files[i].build_id, build_id) == 0)
            return &files[i];
    return NULL;
}

TEST(an_upload_resolves_files_with_its_build_id) {
    struct symbol_module *module;
    struct symbol_file file;
    compile();
    const char *build_id = build_id_of("full");
    struct symbol_store *store = open_store(0, true);
    CHECK_INT(symbol_module_find(store, build_id, &module, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(upload_path(store, fixture_path("part.debug"), &file, NULL), ==, SONDE_OK);
    CHECK_STR(file.build_id, build_id);
    CHECK_INT(file.quality, ==, SYMBOL_FULL);
    CHECK_INT(fixture_run("test -f cache/uploads/.build-id/%.2s/%s.debug", build_id, build_id + 2),
              ==, 0);
    CHECK_INT(fixture_run("ls cache/uploads/tmp.*"), !=, 0);
    CHECK_INT(symbol_module_find(store, build_id, &module, NULL), ==, SONDE_OK);
    check_planted(store, module);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(an_upload_improves_a_module_that_is_already_mapped) {
    struct sonde_arena arena = {0};
    struct symbol_file file;
    compile();
    struct symbol_store *store = open_store(0, true);
    struct symbol_module *module = fixture_module(store, fixture_path("bare"));
    uint64_t vaddr = fixture_nm(fixture_path("full"), "planted") + 4;
    struct symbol_answer answer = ask(store, module, vaddr, &arena);
    CHECK_INT(answer.frame_count, ==, 0);
    CHECK_STR(symbol_module_shortfall(module), "STRIPPED");
    CHECK_INT(upload_path(store, fixture_path("part.debug"), &file, NULL), ==, SONDE_OK);
    check_planted(store, module);
    CHECK_INT(symbol_module_reason(module), ==, SYMBOL_REASON_NONE);
    symbol_module_release(module);
    sonde_arena_finish(&arena);
    symbol_store_destroy(store);
}

TEST(useless_uploads_are_refused_with_a_reason) {
    static const struct {
        const char *make, *path, *says;
    } cases[] = {
        {"echo hello > text", "text", "not a 64-bit little-endian ELF file"},
        {"gcc -Wl,--build-id=none planted.c -o anonymous", "anonymous", "no build-id"},
        {"true", "bare", "neither DWARF nor a symbol table"},
        {"head -c 40 full > short", "short", "not a 64-bit little-endian ELF file"},
    };
    struct symbol_file file;
    compile();
    struct symbol_store *store = open_store(0, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sonde_diag diag = {0};
        fixture_must("gcc", "%s", cases[i].make);
        CHECK_INT(upload_path(store, fixture_path("%s", cases[i].path), &file, &diag), ==,
                  SONDE_INVALID_ARGUMENT);
        if (!strstr(diag.text, cases[i].says))
            check_fail(__FILE__, __LINE__, "%s: %s", cases[i].path, diag.text);
    }
    CHECK_INT(fixture_run("find cache/uploads -type f | grep ."), !=, 0);
    symbol_store_destroy(store);
}

TEST(uploads_have_a_limit_each_and_together) {
    struct symbol_upload *first, *second;
    struct sonde_diag diag = {0};
    compile();
    struct symbol_store *store = open_store(1 << 20, false);
    CHECK_INT(symbol_upload_begin(store, 0, &first, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(symbol_upload_begin(store, SYMBOL_UPLOAD_MAX + 1, &first, &diag), ==,
              SONDE_TOO_LARGE);
    CHECK_INT(symbol_upload_begin(store, 700000, &first, &diag), ==, SONDE_OK);
    CHECK_INT(symbol_upload_begin(store, 700000, &second, &diag), ==, SONDE_TOO_LARGE);
    CHECK(strstr(diag.text, "evict"));
    symbol_upload_abandon(first);
    CHECK_INT(symbol_upload_begin(store, 4, &first, &diag), ==, SONDE_OK);
    CHECK_INT(symbol_upload_write(first, "12345", 5, &diag), ==, SONDE_TOO_LARGE);
    CHECK_INT(symbol_upload_write(first, "123", 3, &diag), ==, SONDE_OK);
    struct symbol_file file;
    CHECK_INT(symbol_upload_finish(first, &file, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "3 of 4 bytes"));
    symbol_store_destroy(store);
    struct symbol_options nowhere = {.debug_roots = "/nowhere"};
    CHECK_INT(symbol_store_create(&nowhere, &store, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_upload_begin(store, 4, &first, &diag), ==, SONDE_NOT_AVAILABLE);
    symbol_store_destroy(store);
}

TEST(tables_answer_after_the_file_is_gone_and_place_its_mappings) {
    struct symbol_module *module;
    struct sonde_arena arena = {0};
    compile();
    struct symbol_store *store = open_store(0, true);
    char build_id[SYMBOL_BUILD_ID_TEXT];
    snprintf(build_id, sizeof build_id, "%s", build_id_of("full"));
    module = fixture_module(store, fixture_path("full"));
    struct symbol_mapping mapping = {.start = 0x550000001000, .end = 0x550000002000};
    mapping.offset = 0x1000;
    uint64_t bias, again, vaddr = fixture_nm(fixture_path("full"), "planted") + 4;
    CHECK(symbol_module_bias_of(module, &mapping, &bias));
    check_planted(store, module);
    symbol_module_release(module);
    symbol_store_destroy(store);
    CHECK_INT(fixture_run("mv full away && grep -q full cache/*.info"), ==, 0);
    store = open_store(0, true);
    CHECK_INT(symbol_module_find(store, build_id, &module, NULL), ==, SONDE_OK);
    CHECK_STR(symbol_module_base_name(module), "full");
    CHECK(symbol_module_bias_of(module, &mapping, &again));
    CHECK_INT(again, ==, bias);
    struct symbol_answer answer = ask(store, module, vaddr, &arena);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_STR(answer.frames[0].name, "twice");
    symbol_module_release(module);
    sonde_arena_finish(&arena);
    symbol_store_destroy(store);
}

static const char *name_by_build_id(struct symbol_store *store, const char *build_id) {
    static char name[64];
    struct symbol_module *module;
    struct sonde_arena arena = {0};
    CHECK_INT(symbol_module_find(store, build_id, &module, NULL), ==, SONDE_OK);
    struct symbol_answer answer =
        ask(store, module, fixture_nm(fixture_path("full"), "planted") + 4, &arena);
    CHECK(answer.frame_count > 0);
    snprintf(name, sizeof name, "%s", answer.frames[answer.frame_count - 1].name);
    sonde_arena_finish(&arena);
    symbol_module_release(module);
    return name;
}

/* A user can give its own file any build-id. */
TEST(a_trusted_file_comes_before_a_users_file_with_the_same_build_id) {
    char build_id[SYMBOL_BUILD_ID_TEXT];
    compile();
    fixture_must("chown", "LC_ALL=C sed s/planted/usurped/g full > evil && chmod 777 evil");
    snprintf(build_id, sizeof build_id, "%s", build_id_of("full"));
    CHECK_STR(build_id_of("evil"), build_id);
    struct symbol_store *store = open_store(0, false);
    struct symbol_module *evil = fixture_module(store, fixture_path("evil"));
    CHECK_STR(name_by_build_id(store, build_id), "usurped"); /* there is no other */
    struct symbol_module *good = fixture_module(store, fixture_path("full"));
    struct symbol_module *last = fixture_module(store, fixture_path("evil")); /* listed first */
    CHECK_STR(name_by_build_id(store, build_id), "planted");
    symbol_module_release(last);
    symbol_module_release(evil);
    symbol_module_release(good);
    symbol_store_destroy(store);
    CHECK_INT(fixture_run("ls cache/%s-*.symbols | wc -l | grep -qx 2", build_id), ==, 0);
    store = open_store(0, false); /* both only have tables now */
    CHECK_STR(name_by_build_id(store, build_id), "planted");
    symbol_store_destroy(store);
}

TEST(a_debug_file_alone_places_mappings_too) {
    struct symbol_module *module, *whole;
    struct symbol_file file;
    compile();
    struct symbol_store *store = open_store(0, true);
    CHECK_INT(upload_path(store, fixture_path("part.debug"), &file, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_module_find(store, file.build_id, &module, NULL), ==, SONDE_OK);
    whole = fixture_module(store, fixture_path("full"));
    struct symbol_mapping mapping = {.start = 0x550000001000, .end = 0x550000002000};
    mapping.offset = 0x1000;
    uint64_t bias, expected;
    CHECK(symbol_module_bias_of(whole, &mapping, &expected));
    CHECK(symbol_module_bias_of(module, &mapping, &bias));
    CHECK_INT(bias, ==, expected);
    symbol_module_release(whole);
    symbol_module_release(module);
    symbol_store_destroy(store);
}

TEST(the_list_has_tables_uploads_and_states_and_eviction_empties_it) {
    struct symbol_file *files, file;
    struct symbol_evicted evicted;
    size_t count;
    compile();
    struct symbol_store *store = open_store(0, true);
    const char *build_id = build_id_of("full");
    struct symbol_module *module = fixture_module(store, fixture_path("full"));
    CHECK_INT(symbol_files_list(store, &files, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(files[0].state, ==, SYMBOL_FILE_KNOWN);
    CHECK_STR(files[0].name, "full");
    CHECK(files[0].is_loaded);
    free(files);
    check_planted(store, module);
    symbol_module_release(module);
    CHECK_INT(upload_path(store, fixture_path("part.debug"), &file, NULL), ==, SONDE_OK);
    CHECK_INT(symbol_files_list(store, &files, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    const struct symbol_file *tables = find(files, count, SYMBOL_FILE_TABLES, build_id);
    const struct symbol_file *uploaded = find(files, count, SYMBOL_FILE_UPLOAD, build_id);
    CHECK(tables && uploaded);
    CHECK_INT(tables->state, ==, SYMBOL_FILE_READY);
    CHECK_INT(tables->quality, ==, SYMBOL_FULL);
    CHECK_STR(tables->name, "full");
    CHECK(tables->bytes > 4096 && tables->used_unix_ns > 0 && !tables->is_loaded);
    CHECK(uploaded->bytes > 4096);
    CHECK_INT(uploaded->quality, ==, SYMBOL_FULL);
    CHECK_INT(symbol_files_evict(store, "no-such", true, &evicted, NULL), ==, SONDE_NOT_FOUND);
    CHECK_INT(symbol_files_evict(store, tables->identity, false, &evicted, NULL), ==, SONDE_OK);
    CHECK_INT(evicted.files, ==, 1);
    CHECK_INT(evicted.bytes, ==, tables->bytes);
    free(files);
    CHECK_INT(symbol_files_evict(store, NULL, true, &evicted, NULL), ==, SONDE_OK);
    CHECK_INT(evicted.files, ==, 1);
    CHECK_INT(symbol_files_list(store, &files, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 0);
    free(files);
    CHECK_INT(fixture_run("find cache -type f | grep ."), !=, 0);
    symbol_store_destroy(store);
}

TEST(a_build_id_is_4_to_64_hexadecimal_digits) {
    char text[SYMBOL_BUILD_ID_TEXT];
    CHECK(symbol_build_id_read("ABCDEF01", text));
    CHECK_STR(text, "abcdef01");
    CHECK(!symbol_build_id_read("", text));
    CHECK(!symbol_build_id_read("abc", text));
    CHECK(!symbol_build_id_read("../../etc/passwd", text));
    CHECK(!symbol_build_id_read(
        "0123456789012345678901234567890123456789012345678901234567890123456", text));
}

TEST(a_file_info_is_read_back_without_unknown_lines) {
    const Elf64_Phdr loads[] = {{.p_offset = 0x1000, .p_filesz = 0x234, .p_vaddr = 0x401000},
                                {.p_offset = UINT64_MAX, .p_filesz = 1, .p_vaddr = 0}};
    struct sonde_buf text = {0};
    struct symbol_file_info info;
    symbol_file_info_write("/opt/a b", loads, 2, &text);
    sonde_buf_puts(&text, "load 1 2\nload 1 2 3 4\nload g 1 1\nload\npath\nfuture 1\n");
    CHECK(symbol_file_info_read(sonde_buf_slice(&text), &info));
    CHECK_STR(info.path, "/opt/a b");
    CHECK_INT(info.load_count, ==, 2);
    CHECK_INT(info.loads[0].p_vaddr, ==, 0x401000);
    CHECK(info.loads[1].p_offset == UINT64_MAX);
    symbol_file_info_finish(&info);
    sonde_buf_finish(&text);
}
