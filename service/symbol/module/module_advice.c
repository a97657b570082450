/* SPDX-License-Identifier: Apache-2.0 */
#include "api/program_advice.h"
#include "service/symbol/debian_package.h"
#include "service/symbol/store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DPKG_LISTS "/var/lib/dpkg/info"

bool symbol_module_is_stripped(struct symbol_module *module) {
    bool is_file =
        module->kind == SYMBOL_MODULE_EXECUTABLE || module->kind == SYMBOL_MODULE_LIBRARY;
    if (!is_file || module->fd < 0)
        return false;
    const struct loaded_symbols *symbols = symbol_module_symbols(module);
    return !symbols || symbols->table.header->quality < SYMBOL_NAMES;
}

/* The path of the open file on this machine; false if that is another file now, or if the file is
 * in a container, whose packages are not ours. */
static bool path_here(int fd, char path[PATH_MAX]) {
    struct stat here, opened;
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = 0;
    return len > 0 && stat(path, &here) == 0 && fstat(fd, &opened) == 0 &&
           here.st_dev == opened.st_dev && here.st_ino == opened.st_ino;
}

static bool has_unread_sections(int fd) {
    struct elf_input input;
    struct elf_file elf = {0};
    bool has = elf_input_of_file(fd, &input) && elf_open(&input, &elf, NULL) == SONDE_OK &&
               elf.has_unread_sections;
    elf_finish(&elf);
    return has;
}

void symbol_file_advice(int fd, const char *name, char text[PROGRAM_ADVICE]) {
    char path[PATH_MAX];
    struct debian_package package;
    if (path_here(fd, path) && debian_package_find(DPKG_LISTS, path, &package))
        program_advice(package.is_main ? PROGRAM_PACKAGED_MAIN : PROGRAM_PACKAGED, name,
                       package.name, text);
    else
        program_advice(has_unread_sections(fd) ? PROGRAM_UNREADABLE : PROGRAM_STRIPPED, name, NULL,
                       text);
}

bool symbol_module_advice(struct symbol_module *module, const char *name,
                          char text[PROGRAM_ADVICE]) {
    text[0] = 0;
    if (!symbol_module_is_stripped(module))
        return false;
    lock_take(&module->lock);
    if (module->advice)
        snprintf(text, PROGRAM_ADVICE, "%s", module->advice);
    lock_drop(&module->lock);
    if (text[0])
        return true;
    symbol_file_advice(module->fd, name, text);
    lock_take(&module->lock);
    if (!module->advice)
        module->advice = strdup(text);
    lock_drop(&module->lock);
    return true;
}
