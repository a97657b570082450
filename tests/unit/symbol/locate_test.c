/* SPDX-License-Identifier: Apache-2.0
 *
 * Files in unusual places: only in the target's root, only in memory, at odd offsets. */
#include "service/symbol/locate/locate.h"
#include "tests/unit/check.h"
#include "tests/unit/symbol/dwarf/corpus.h"
#include "tests/unit/symbol/fixture.h"

#include <dlfcn.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static void write_program(void) {
    fixture_write("planted.c",
                  "#include <stdio.h>\n#include <unistd.h>\n"
                  "static inline __attribute__((always_inline)) int inner(int x) {\n"
                  "    volatile int y = x;\n"
                  "    return y * 3;\n"
                  "}\n"
                  "__attribute__((noinline)) int planted(int x) { return inner(x) + 1; }\n"
                  "int main(void) {\n"
                  "    printf(\"planted %p\\nready\\n\", (void *)planted);\n"
                  "    fflush(stdout);\n"
                  "    char byte;\n"
                  "    return planted((int)read(0, &byte, 1));\n"
                  "}\n");
}

static struct symbol_answer ask(struct symbol_store *store, struct sonde_arena *arena, pid_t pid,
                                uint64_t address) {
    struct symbol_mapping mapping;
    struct symbol_module *module;
    struct symbol_answer answer;
    uint64_t bias;
    CHECK(fixture_mapping(pid, address, &mapping));
    CHECK_INT(symbol_module_open(store, pid, &mapping, &module, NULL), ==, SONDE_OK);
    CHECK(symbol_module_bias(module, &mapping, &bias));
    struct symbol_query query = {.module = module, .vaddr = address - bias};
    CHECK_INT(symbol_resolve_wait(store, &query, 1, 20000, arena, &answer), ==, SONDE_OK);
    symbol_module_release(module);
    return answer;
}

/* The debug file is only in the container, where its package installed it. */
TEST(s2_a_build_id_directory_inside_the_targets_root_gives_lines) {
    if (geteuid() != 0 || fixture_run("unshare --mount --pid --fork true") != 0)
        check_skip("creating namespaces is not allowed here");
    struct fixture_process process;
    struct sonde_arena arena = {0};
    write_program();
    fixture_must("gcc",
                 "gcc -g -O1 -static -Wl,--build-id=0xfeed0123 planted.c -o full && "
                 "mkdir -p root%s root/usr/lib/debug/.build-id/fe && strip -o bare full && "
                 "objcopy --only-keep-debug full root/usr/lib/debug/.build-id/fe/ed0123.debug && "
                 "cp bare root%s/bare && chmod 755 . root root/usr root/usr/lib",
                 fixture_dir(), fixture_dir());
    fixture_start(&process, fixture_path("bare"), fixture_path("root"));
    long pid = strtol(fixture_line("pgrep -P %d", (int)process.pid), NULL, 10);
    CHECK_INT(pid, >, 0);
    struct symbol_options options = {.worker = corpus_worker()};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    uint64_t planted = fixture_address(&process, "planted ");
    struct symbol_answer answer = ask(store, &arena, (pid_t)pid, planted + 4);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK_STR(answer.frames[answer.frame_count - 1].name, "planted");
    CHECK(answer.frames[0].line > 0);
    sonde_arena_finish(&arena);
    fixture_stop(&process);
    symbol_store_destroy(store);
}

/* The file that dwz moved shared DWARF to is also only in the container. */
TEST(s2_the_shared_part_of_debug_files_is_found_inside_the_targets_root) {
    if (geteuid() != 0 || fixture_run("unshare --mount --pid --fork true") != 0)
        check_skip("creating namespaces is not allowed here");
    struct fixture_process process;
    struct sonde_arena arena = {0};
    write_program();
    fixture_must("dwz",
                 "rm -rf root && gcc -g -O1 -static -Wl,--build-id=0xfeed0456 planted.c -o full && "
                 "cp full twin && mkdir -p root%s root/usr/lib/debug/.build-id/fe "
                 "root/usr/lib/debug/.dwz && objcopy --only-keep-debug full one.debug && "
                 "objcopy --only-keep-debug twin two.debug && "
                 "dwz -m shared.debug -M /usr/lib/debug/.dwz/shared.debug one.debug two.debug && "
                 "readelf -SW one.debug | grep -q gnu_debugaltlink && "
                 "mv shared.debug root/usr/lib/debug/.dwz/ && strip -o bare full && "
                 "mv one.debug root/usr/lib/debug/.build-id/fe/ed0456.debug && "
                 "cp bare root%s/bare && chmod 755 . root root/usr root/usr/lib",
                 fixture_dir(), fixture_dir());
    fixture_start(&process, fixture_path("bare"), fixture_path("root"));
    long pid = strtol(fixture_line("pgrep -P %d", (int)process.pid), NULL, 10);
    CHECK_INT(pid, >, 0);
    struct symbol_options options = {.worker = corpus_worker()};
    struct symbol_store *store;
    CHECK_INT(symbol_store_create(&options, &store, NULL), ==, SONDE_OK);
    uint64_t planted = fixture_address(&process, "planted ");
    struct symbol_answer answer = ask(store, &arena, (pid_t)pid, planted + 4);
    CHECK_INT(answer.quality, ==, SYMBOL_FULL);
    CHECK(strstr(answer.frames[0].file, "planted.c"));
    CHECK_STR(answer.frames[0].name, "inner"); /* its name is in the shared file */
    sonde_arena_finish(&arena);
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s3_a_library_in_a_memfd_is_named) {
    char path[64];
    fixture_write("lib.c", "__attribute__((noinline)) int in_memory(int x) { return x ^ 5; }\n");
    fixture_must("gcc", "gcc -O2 -fPIC -shared -Wl,--build-id=sha1 lib.c -o lib.so");
    int fd = memfd_create("plugin", 0);
    CHECK(fd >= 0);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    CHECK_INT(fixture_run("cat lib.so > %s", path), ==, 0);
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    void *function = dlsym(library, "in_memory");
    CHECK(function);
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct fixture_answer answer = fixture_name(store, getpid(), (uint64_t)(uintptr_t)function);
    CHECK_STR(answer.name, "in_memory");
    CHECK(answer.build_id[0]);
    symbol_store_destroy(store);
    dlclose(library);
    close(fd);
}

/* The number of a deleted inode is used again, so a library can have the place and the number of
 * the one before. Only its generation is another one. */
TEST(s3_a_file_with_the_inode_number_of_another_is_not_taken_for_it) {
    struct fixture_process process;
    struct symbol_mapping mapping;
    enum symbol_reason reason;
    write_program();
    fixture_must("gcc", "gcc -O2 -no-pie planted.c -o generation");
    fixture_start(&process, fixture_path("generation"), NULL);
    CHECK(fixture_mapping(process.pid, fixture_address(&process, "planted "), &mapping));
    int fd = symbol_locate_file(process.pid, &mapping, &reason);
    CHECK_INT(fd, >=, 0);
    long generation = 0;
    if (ioctl(fd, FS_IOC_GETVERSION, &generation) != 0)
        check_skip("this file system has no generations of inodes");
    close(fd);
    mapping.inode_generation = (uint32_t)generation;
    fd = symbol_locate_file(process.pid, &mapping, &reason);
    CHECK_INT(fd, >=, 0);
    close(fd);
    mapping.inode_generation ^= 1;
    CHECK_INT(symbol_locate_file(process.pid, &mapping, &reason), ==, -1);
    CHECK_INT(reason, ==, SYMBOL_REASON_BINARY_REPLACED);
    fixture_stop(&process);
}

/* A program that copies its text into anonymous memory at the same addresses. */
static void write_remapper(void) {
    fixture_write(
        "huge.c",
        "#define _GNU_SOURCE\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n"
        "#include <unistd.h>\n"
        "extern char begin_text[], end_text[], planted[];\n"
        "__asm__(\".text\\n.p2align 12\\n.globl begin_text\\nbegin_text:\\n\"\n"
        "        \".fill 0x300000, 1, 0x90\\n\"\n"
        "        \".globl planted\\n.type planted,@function\\nplanted: nop; nop; ret\\n\"\n"
        "        \".size planted,.-planted\\n.fill 0x300000, 1, 0x90\\n\"\n"
        "        \".p2align 12\\n.globl end_text\\nend_text: nop\\n\");\n"
        "int main(int argc, char **argv) {\n"
        "    size_t len = (size_t)(end_text - begin_text);\n"
        "    char *copy = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, "
        "0);\n"
        "    if (argc == 1) memcpy(copy, begin_text, len);\n"
        "    mprotect(copy, len, PROT_READ | PROT_EXEC);\n"
        "    mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, begin_text);\n"
        "    printf(\"planted %p\\nready\\n\", (void *)planted);\n"
        "    fflush(stdout);\n"
        "    char byte;\n"
        "    return (int)read(0, &byte, 1);\n"
        "}\n");
}

static void check_remapped(const char *program, bool is_named) {
    struct fixture_process process;
    struct symbol_store *store = fixture_store(NULL, NULL);
    struct symbol_mapping mapping;
    fixture_start(&process, fixture_path("%s", program), NULL);
    uint64_t planted = fixture_address(&process, "planted ");
    CHECK(fixture_mapping(process.pid, planted, &mapping));
    CHECK_INT(mapping.inode, ==, 0);
    struct fixture_answer answer = fixture_name(store, process.pid, planted + 1);
    CHECK_STR(answer.name, is_named ? "planted" : "");
    CHECK_INT(answer.reason, ==, is_named ? SYMBOL_REASON_NONE : SYMBOL_REASON_ANONYMOUS);
    fixture_stop(&process);
    symbol_store_destroy(store);
}

TEST(s3_text_that_was_copied_into_anonymous_memory_is_named_by_its_file) {
    write_remapper();
    fixture_must("gcc", "gcc -O1 -fPIE -pie huge.c -o huge && gcc -O1 -no-pie huge.c -o fixed");
    check_remapped("huge", true);
    check_remapped("fixed", true);
    if (fixture_run("clang -O1 -fuse-ld=lld huge.c -o split") == 0)
        check_remapped("split", true);
}

/* Anonymous memory between a program's segments that is not a copy of its text. */
TEST(s3_memory_that_is_not_the_files_text_is_not_named_by_it) {
    write_remapper();
    fixture_write("other.sh", "#!/bin/sh\nexec \"$(dirname \"$0\")\"/huge other\n");
    fixture_must("gcc", "gcc -O1 -fPIE -pie huge.c -o huge && chmod 700 other.sh");
    check_remapped("other.sh", false);
}

/* Sections need not be aligned. */
TEST(s5_a_debuglink_section_at_an_odd_offset_is_read) {
    write_program();
    fixture_write("shift.py", "import struct\n"
                              "data = bytearray(open('linked', 'rb').read())\n"
                              "shoff, = struct.unpack_from('<Q', data, 40)\n"
                              "size, count, names = struct.unpack_from('<HHH', data, 58)\n"
                              "table, = struct.unpack_from('<Q', data, shoff + names * size + 24)\n"
                              "for i in range(count):\n"
                              "    at = shoff + i * size\n"
                              "    name, = struct.unpack_from('<I', data, at)\n"
                              "    end = data.index(b'\\0', table + name)\n"
                              "    if data[table + name:end] == b'.gnu_debuglink':\n"
                              "        offset, length = struct.unpack_from('<QQ', data, at + 24)\n"
                              "        data += b'x' * (1 + len(data) % 2)\n"
                              "        struct.pack_into('<Q', data, at + 24, len(data))\n"
                              "        print(len(data) % 2)\n"
                              "        data += data[offset:offset + length]\n"
                              "        break\n"
                              "open('linked', 'wb').write(data)\n");
    fixture_must("/usr/bin/python3",
                 "gcc -O2 -no-pie -Wl,--build-id=none planted.c -o linked && "
                 "objcopy --only-keep-debug linked linked.debug && strip linked && "
                 "objcopy --add-gnu-debuglink=linked.debug linked && "
                 "/usr/bin/python3 shift.py | grep -q 1");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t planted = fixture_nm(fixture_path("linked.debug"), "planted");
    CHECK_STR(fixture_name_in(store, fixture_path("linked"), planted).name, "planted");
    symbol_store_destroy(store);
}

/* Gives the stripped program bin/linked a .gnu_debuglink with that text, and resolves `planted`. */
static struct fixture_answer resolve_with_debuglink(const char *link, const char *debug_file) {
    fixture_must("/usr/bin/python3",
                 "/usr/bin/python3 -c \"import struct, zlib\n"
                 "name = b'%s\\0'\n"
                 "name += b'\\0' * (-len(name) %% 4)\n"
                 "crc = zlib.crc32(open('%s', 'rb').read())\n"
                 "open('link', 'wb').write(name + struct.pack('<I', crc))\" && "
                 "objcopy --add-section .gnu_debuglink=link bare bin/linked",
                 link, debug_file);
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t planted = fixture_nm(fixture_path("%s", debug_file), "planted");
    struct fixture_answer answer = fixture_name_in(store, fixture_path("bin/linked"), planted);
    symbol_store_destroy(store);
    return answer;
}

/* A path could lead to any file that sonded may read. */
TEST(s5_a_debuglink_that_is_a_path_is_not_followed) {
    write_program();
    fixture_must("gcc", "mkdir -p bin && gcc -O2 -no-pie -Wl,--build-id=none planted.c -o full && "
                        "objcopy --only-keep-debug full part && cp part bin/part && "
                        "strip -o bare full");
    CHECK_STR(resolve_with_debuglink("part", "bin/part").name, "planted");
    CHECK_STR(resolve_with_debuglink("/part", "bin/part").name, "");
    CHECK_INT(fixture_run("rm bin/part"), ==, 0);
    CHECK_STR(resolve_with_debuglink("../part", "part").name, "");
}

TEST(trap_2_folded_code_is_marked) {
    fixture_write("folded.s",
                  ".text\n.globl _Z3onev\n.type _Z3onev,@function\n"
                  ".globl _Z3twov\n.type _Z3twov,@function\n"
                  "_Z3onev:\n_Z3twov:\n  nop\n  ret\n"
                  ".size _Z3onev,2\n.size _Z3twov,2\n"
                  ".globl _start\n.type _start,@function\n_start: hlt\n.size _start,1\n");
    fixture_must("gcc", "gcc -nostdlib -no-pie -static folded.s -o folded");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t one = fixture_nm(fixture_path("folded"), "_Z3onev");
    struct fixture_answer answer = fixture_name_in(store, fixture_path("folded"), one + 1);
    CHECK(answer.is_folded);
    CHECK_STR(answer.name, "one()");
    CHECK(!fixture_name_in(store, fixture_path("folded"),
                           fixture_nm(fixture_path("folded"), "_start"))
               .is_folded);
    symbol_store_destroy(store);
}

TEST(trap_11_a_symbol_at_address_zero_covers_nothing) {
    fixture_write("zero.s", ".text\n.globl all\n.type all,@function\n.set all, 0\n.size all,-1\n"
                            ".globl _start\n.type _start,@function\n_start: hlt\n.size _start,1\n"
                            "  nop\n  nop\n");
    fixture_must("gcc", "gcc -nostdlib -no-pie -static zero.s -o zero && nm zero | grep -q ' all'");
    struct symbol_store *store = fixture_store(NULL, NULL);
    uint64_t start = fixture_nm(fixture_path("zero"), "_start");
    CHECK_STR(fixture_name_in(store, fixture_path("zero"), start).name, "_start");
    CHECK_INT(fixture_name_in(store, fixture_path("zero"), start + 1).frame_count, ==, 0);
    symbol_store_destroy(store);
}
