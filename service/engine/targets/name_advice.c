/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/targets/name_advice.h"
#include "api/elf/elf.h"
#include "service/engine/core/engine_state.h"
#include "service/process/process_file.h"
#include "service/process/process_identity.h"
#include "service/symbol/files/files.h"
#include "service/symbol/jit/perf_map.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The program's base name; "" if it is unknown. */
static void read_name(int fd, char name[NAME_MAX + 1]) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    const char *slash = strrchr(path, '/');
    snprintf(name, NAME_MAX + 1, "%s", slash ? slash + 1 : path);
}

static bool writes_names(pid_t pid) {
    uid_t owner;
    int map = symbol_perf_map_open(pid, &owner), dump = symbol_jitdump_open(pid);
    if (map >= 0)
        close(map);
    if (dump >= 0)
        close(dump);
    return map >= 0 || dump >= 0;
}

/* Whether another file has the symbols: an upload, or one in /usr/lib/debug. */
static bool has_debug_file(struct symbol_store *symbols, const struct elf_file *elf) {
    uint8_t id[ELF_BUILD_ID_MAX];
    char text[2 * ELF_BUILD_ID_MAX + 1] = "";
    struct symbol_module *module;
    size_t len = elf_build_id(elf, id);
    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    if (len < 2 || symbol_module_find(symbols, text, &module, NULL) != SONDE_OK)
        return false;
    bool has = !symbol_module_is_stripped(module);
    symbol_module_release(module);
    return has;
}

static bool is_stripped(struct symbol_store *symbols, int fd) {
    struct elf_input input;
    struct elf_file elf = {0};
    if (!elf_input_of_file(fd, &input))
        return false;
    bool is_elf = elf_open(&input, &elf, NULL) == SONDE_OK && elf.sections;
    bool has_names = !is_elf || elf_section_of_type(&elf, SHT_SYMTAB) ||
                     elf_section(&elf, ".gnu_debugdata") || elf_section(&elf, ".gopclntab") ||
                     has_debug_file(symbols, &elf);
    elf_finish(&elf);
    return !has_names;
}

static void advise(struct engine *engine, const struct engine_target *target,
                   char text[PROGRAM_ADVICE]) {
    char name[NAME_MAX + 1];
    int fd = process_file_open(PROCESS_EXE, target->pid, 0, 0);
    if (fd < 0)
        return;
    read_name(fd, name);
    enum program_kind kind = program_kind_of_runtime(name);
    if (kind != PROGRAM_OTHER)
        program_advice(writes_names(target->pid) ? PROGRAM_OTHER : kind, name, NULL, text);
    else if (!target->is_unattached && is_stripped(engine->symbols, fd))
        symbol_file_advice(fd, name, text);
    close(fd);
}

enum program_kind static_kind(const struct process_identity *process) {
    struct elf_input input;
    struct elf_file elf = {0};
    enum program_kind kind = PROGRAM_OTHER;
    if (!process_rights_take(process))
        return kind;
    int fd = process_file_open(PROCESS_EXE, process->pid, 0, 0);
    process_rights_drop();
    if (fd >= 0 && elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK)
        kind = program_kind_of_elf(&elf);
    elf_finish(&elf);
    if (fd >= 0)
        close(fd);
    return process_identity_holds(process) ? kind : PROGRAM_OTHER;
}

void engine_name_advice(struct engine *engine, const struct engine_target *target,
                        char text[PROGRAM_ADVICE]) {
    struct process_identity identity;
    text[0] = 0;
    if (!process_identity_of_pid(target->pid, &identity))
        return;
    if (identity.ids.uids[1] == target->uid && process_rights_take(&identity)) {
        advise(engine, target, text);
        process_rights_drop();
    }
    if (!process_identity_holds(&identity))
        text[0] = 0;
    process_identity_finish(&identity);
}
