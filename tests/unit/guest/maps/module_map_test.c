/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/module_map.h"

#include "tests/unit/check.h"
#include "tests/unit/guest/fake_tables.h"
#include "tests/unit/old_kernel.h"
#include "tests/unit/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

static struct maps read_maps(void) {
    struct maps maps = {0};
    CHECK_INT(maps_init(&maps), ==, 0);
    CHECK_INT(maps_read(&maps), ==, 0);
    return maps;
}

static const struct maps_module *module_of(const struct maps *maps, uint64_t address) {
    for (uint32_t i = 0; i < maps->module_count; i++)
        if (address >= maps->modules[i].start && address < maps->modules[i].end)
            return &maps->modules[i];
    return NULL;
}

/* The unwind table of this program. */
static int own_table(const struct maps_module *module, uint64_t *bias, uint64_t *bytes) {
    sonde_guest_v1_Mapping mapping = {.start = module->start,
                                      .end = module->end,
                                      .offset = module->offset,
                                      .inode = module->inode};
    snprintf(mapping.path, sizeof mapping.path, "%s", module->path);
    int fd = fake_table(&mapping, bias, bytes);
    CHECK_INT(fd, >=, 0);
    return fd;
}

TEST(tables_published_are_found_by_pc_and_kept_for_later_generations) {
    struct maps maps = read_maps();
    const struct maps_module *module = module_of(&maps, (uint64_t)read_maps);
    uint64_t bias, bytes;
    CHECK_INT(module_map_set_modules(&maps, 5), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    const struct module_map *first = handler_state.map;
    CHECK_INT(first->generation, ==, 5);
    const struct walk_module *walked = walk_map_find(&first->walk, (uint64_t)read_maps);
    CHECK(walked && walked->text_bytes == 0);
    int fd = own_table(module, &bias, &bytes);
    CHECK_INT(module_map_add_table(5, module->start, bias, bytes, fd), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    const struct module_map *second = handler_state.map;
    CHECK_INT(second->generation, ==, 5);
    CHECK_INT(second->walk.generation, >, first->walk.generation); /* so that caches notice */
    walked = walk_map_find(&second->walk, (uint64_t)read_maps);
    CHECK(walked && walked->text_bytes > 0);
    module_map_collect(true);
    CHECK_INT(module_map_set_modules(&maps, 6), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    walked = walk_map_find(&handler_state.map->walk, (uint64_t)read_maps);
    CHECK(walked && walked->text_bytes > 0);
    CHECK_INT(module_map_images(), ==, 1);
    fd = own_table(module, &bias, &bytes); /* the same table is not mapped twice */
    CHECK_INT(module_map_add_table(6, module->start, bias, bytes, fd), ==, 0);
    CHECK_INT(module_map_images(), ==, 1);
    module_map_clear();
    CHECK_INT(module_map_images(), ==, 0);
    maps_finish(&maps);
}

TEST(tables_of_unmapped_modules_are_freed_after_quiescence) {
    struct maps maps = read_maps();
    const struct maps_module *module = module_of(&maps, (uint64_t)read_maps);
    uint64_t bias, bytes;
    CHECK_INT(module_map_set_modules(&maps, 1), ==, 0);
    CHECK_INT(module_map_add_table(1, module->start, bias = 0, 0, -1), ==, EBADF);
    int fd = own_table(module, &bias, &bytes);
    CHECK_INT(module_map_add_table(1, module->start, bias, bytes, fd), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    maps.module_count = 0;
    CHECK_INT(module_map_set_modules(&maps, 2), ==, 0);
    CHECK_INT(module_map_publish(), ==, 0);
    module_map_collect(false);
    CHECK_INT(module_map_images(), ==, 1);
    module_map_collect(true);
    CHECK_INT(module_map_images(), ==, 0);
    module_map_clear();
    maps_finish(&maps);
}

static int memory_with(const void *data, size_t size, int seals) {
    int fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(write(fd, data, size) == (ssize_t)size);
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

TEST(tables_that_are_not_sealed_or_not_tables_are_refused) {
    struct maps maps = read_maps();
    const struct maps_module *module = module_of(&maps, (uint64_t)read_maps);
    static char junk[8192];
    int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    CHECK_INT(module_map_set_modules(&maps, 1), ==, 0);
    int fd = memory_with(junk, sizeof junk, F_SEAL_SHRINK | F_SEAL_GROW);
    CHECK_INT(module_map_add_table(1, module->start, 0, sizeof junk, fd), ==, EINVAL);
    fd = memory_with(junk, sizeof junk, all);
    CHECK_INT(module_map_add_table(1, module->start, 0, sizeof junk, fd), ==, EINVAL);
    fd = memory_with(junk, sizeof junk, all);
    CHECK_INT(module_map_add_table(1, module->start, 0, sizeof junk + 1, fd), ==, EINVAL);
    fd = memory_with(junk, sizeof junk, all);
    CHECK_INT(module_map_add_table(2, module->start, 0, sizeof junk, fd), ==, ESTALE);
    fd = memory_with(junk, sizeof junk, all);
    CHECK_INT(module_map_add_table(1, module->start + 1, 0, sizeof junk, fd), ==, ENOENT);
    CHECK_INT(module_map_add_table(1, module->start, 0, sizeof junk, open("/dev/zero", O_RDONLY)),
              ==, EINVAL);
    CHECK_INT(module_map_images(), ==, 0);
    module_map_clear();
    maps_finish(&maps);
}

/* An ordinary file with the bytes of this program's table, which the service could truncate. */
static int copy_to_file(int table, uint64_t bytes) {
    char path[32];
    int fd = mkstemp(temporary_template(path, sizeof path));
    CHECK(fd >= 0 && unlink(path) == 0);
    CHECK_INT(sendfile(fd, table, &(off_t){0}, bytes), ==, bytes);
    close(table);
    return fd;
}

TEST(a_table_in_an_ordinary_file_or_a_pipe_is_refused) {
    struct maps maps = read_maps();
    const struct maps_module *module = module_of(&maps, (uint64_t)read_maps);
    uint64_t bias, bytes;
    int ends[2];
    CHECK_INT(module_map_set_modules(&maps, 1), ==, 0);
    int fd = own_table(module, &bias, &bytes);
    int file = copy_to_file(fcntl(fd, F_DUPFD_CLOEXEC, 0), bytes);
    CHECK_INT(module_map_add_table(1, module->start, bias, bytes, file), ==, EINVAL);
    CHECK_INT(pipe(ends), ==, 0);
    CHECK_INT(module_map_add_table(1, module->start, bias, bytes, ends[0]), ==, EINVAL);
    CHECK_INT(module_map_add_table(1, module->start, bias, bytes, fd), ==, 0);
    CHECK_INT(module_map_images(), ==, 1);
    close(ends[1]);
    module_map_clear();
    maps_finish(&maps);
}

static int add_as_before_6_7(const struct maps_module *module) {
    uint64_t bias, bytes;
    int fd = own_table(module, &bias, &bytes);
    if (!old_kernel_refuse_shared_maps())
        return 77;
    return module_map_add_table(1, module->start, bias, bytes, fd);
}

TEST(a_table_is_mapped_where_the_kernel_refuses_shared_mappings_of_sealed_memory) {
    struct maps maps = read_maps();
    int status;
    CHECK_INT(module_map_set_modules(&maps, 1), ==, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(add_as_before_6_7(module_of(&maps, (uint64_t)read_maps)));
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        check_skip("the kernel accepts no seccomp filter");
    CHECK_INT(WEXITSTATUS(status), ==, 0);
    module_map_clear();
    maps_finish(&maps);
}
