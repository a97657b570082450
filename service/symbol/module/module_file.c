/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the headers of a module's file: its executable segments, its identity and its debug files.
 * A file's content is identified by its build-id and a hash of its size, head, tail, program
 * headers and modification time. A build-id alone would not do: a file can claim any, a linker can
 * give one to every build, and a stripped program has the build-id of the original but fewer
 * symbols. Packages and images keep the modification time, so their copies share tables. Files that
 * a user can change are further told apart by files/file_identity.h. */
#include "service/process/process_identity.h"
#include "service/symbol/files/file_identity.h"
#include "service/symbol/locate/locate.h"
#include "service/symbol/store.h"
#include "service/symbol/table/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASHED_EDGE 4096u

static bool keep_loads(struct symbol_module *module, const struct elf_file *elf) {
    module->loads = calloc(elf->segment_count + 1, sizeof *module->loads);
    for (uint32_t i = 0; module->loads && i < elf->segment_count; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && segment->p_filesz > 0)
            module->loads[module->load_count++] = *segment;
    }
    return module->loads != NULL;
}

/* A build without build-id can differ from the one before in a few bytes anywhere. Some builds and
 * images set one modification time for all files, so the inode and its change time count too. */
static uint64_t state_hash(int fd, bool has_build_id) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return 0;
    uint64_t fields[] = {(uint64_t)info.st_mtim.tv_sec, (uint64_t)info.st_mtim.tv_nsec,
                         (uint64_t)info.st_ctim.tv_sec, (uint64_t)info.st_ctim.tv_nsec,
                         info.st_ino};
    return symbol_checksum(0, fields, has_build_id ? 2 * sizeof *fields : sizeof fields);
}

static uint64_t content_hash(const struct elf_file *elf, uint64_t hash) {
    char edge[HASHED_EDGE];
    uint64_t size = elf->input.size, len = size < sizeof edge ? size : sizeof edge;
    hash = symbol_checksum(hash, &size, sizeof size);
    if (elf_read(&elf->input, 0, edge, len))
        hash = symbol_checksum(hash, edge, len);
    if (elf_read(&elf->input, size - len, edge, len))
        hash = symbol_checksum(hash, edge, len);
    return symbol_checksum(hash, elf->segments, elf->segment_count * sizeof *elf->segments);
}

static void identify(struct symbol_module *module, const struct elf_file *elf) {
    uint8_t build_id[ELF_BUILD_ID_MAX];
    char content[SYMBOL_IDENTITY_MAX];
    size_t len = elf_build_id(elf, build_id);
    for (size_t i = 0; i < len; i++)
        snprintf(module->build_id + 2 * i, 3, "%02x", build_id[i]);
    snprintf(content, sizeof content, "%s-%016llx", len ? module->build_id : "file",
             (unsigned long long)content_hash(elf, state_hash(module->fd, len > 0)));
    file_identity(module->fd, content, module->identity);
    memcpy(module->file_identity, module->identity, sizeof module->identity);
}

/* The tables that use a debug file also depend on it. Returns fd; -1 = it cannot be used. */
static int identify_debug(struct symbol_module *module, int fd) {
    if (file_identity_add_debug(fd, module->identity))
        return fd;
    close(fd);
    return -1;
}

/* An upload is for every file with its build-id, and its sender is trusted, so it is not part of
 * the identity. Only sonded itself can read it. */
static int find_upload(const struct symbol_module *module) {
    if (!module->store->has_uploads || !module->build_id[0])
        return -1;
    struct stat upload, file;
    process_rights_pause();
    int fd = symbol_upload_open(module->store, module->build_id);
    bool good = process_rights_resume() && fd >= 0 && fstat(fd, &upload) == 0 &&
                fstat(module->fd, &file) == 0 &&
                (upload.st_dev != file.st_dev || upload.st_ino != file.st_ino); /* not itself */
    if (fd >= 0 && !good) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void find_debug_files(struct symbol_module *module, const struct elf_file *elf, pid_t pid) {
    const char *roots = module->store->debug_roots;
    module->debug_fd = find_upload(module);
    if (module->debug_fd < 0) {
        int fd = symbol_locate_debug(elf, pid, module->path, roots);
        module->debug_fd = identify_debug(module, fd);
    }
    if (pid == 0) /* while the process, and so its root directory, still exists */
        return;
    module->alt_fd =
        symbol_locate_alt_of(module->debug_fd >= 0 ? module->debug_fd : module->fd, pid, roots);
    module->alt_fd = identify_debug(module, module->alt_fd);
}

/* The file's own key, since an upload is not part of module->identity. */
bool symbol_module_debug_identity(const struct symbol_module *module,
                                  char identity[FILE_IDENTITY_MAX]) {
    struct stat debug;
    if (module->debug_fd < 0 || fstat(module->debug_fd, &debug) != 0)
        return false;
    uint64_t fields[] = {debug.st_dev, debug.st_ino, (uint64_t)debug.st_size,
                         (uint64_t)debug.st_mtim.tv_sec, (uint64_t)debug.st_mtim.tv_nsec};
    int len = snprintf(identity, FILE_IDENTITY_MAX, "%s.%016llx", module->identity,
                       (unsigned long long)symbol_checksum(0, fields, sizeof fields));
    return len < FILE_IDENTITY_MAX;
}

sonde_err symbol_module_read_file(struct symbol_module *module, int fd, pid_t pid) {
    struct elf_input input;
    struct elf_file elf = {0};
    sonde_err err = SONDE_OK;
    module->fd = fd;
    if (!elf_input_of_file(fd, &input) || elf_open(&input, &elf, NULL) != SONDE_OK) {
        module->reason = elf_is_for_other_machine(fd, NULL) ? SYMBOL_REASON_OTHER_MACHINE
                                                            : SYMBOL_REASON_NOT_ELF;
    } else if (!keep_loads(module, &elf)) {
        err = SONDE_OUT_OF_MEMORY;
    } else {
        identify(module, &elf);
        module->kind = elf_is_program(&elf) ? SYMBOL_MODULE_EXECUTABLE : SYMBOL_MODULE_LIBRARY;
        find_debug_files(module, &elf, pid);
    }
    elf_finish(&elf);
    return err;
}
