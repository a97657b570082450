/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/code/tables.h"

#include "service/engine/report/program_name.h"
#include "service/symbol/locate/proc_maps.h"
#include "service/unwind/table/table_build.h"
#include "service/unwind/table/table_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#define MAX_MAPS_LINES 65536

struct generation *tables_read_maps(const struct process_identity *process,
                                    const struct generation *known) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = process_identity_holds(process) ? proc_maps_open(process->pid) : NULL;
    struct generation *generation = file ? generation_create(0) : NULL;
    for (int i = 0; generation && i < MAX_MAPS_LINES && getline(&text, &size, file) > 0; i++) {
        struct proc_maps_line line;
        if (proc_maps_parse(text, &line) && line.is_executable &&
            generation_add(generation, &line.mapping) != SONDE_OK)
            break;
    }
    if (generation)
        generation_sort(generation, known);
    if (file)
        fclose(file);
    free(text);
    if (process_identity_holds(process))
        return generation;
    generation_destroy(generation);
    return NULL;
}

void tables_open_mapping(struct engine *engine, const struct process_identity *process,
                         struct mapping *mapping) {
    if (mapping_module(mapping) || !process_rights_take(process))
        return;
    struct symbol_mapping from = mapping_as_symbol(mapping);
    struct symbol_module *module = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = symbol_module_open(engine->symbols, process->pid, &from, &module, &diag);
    if (!err && symbol_module_kind(module) == SYMBOL_MODULE_EXECUTABLE)
        mapping->program = program_name_path(process, mapping->path);
    process_rights_drop();
    if (err || !module)
        return;
    mapping->has_bias = symbol_module_bias(module, &from, &mapping->bias);
    atomic_store_explicit(&mapping->module, module, memory_order_release);
}

/* The vdso is the same in every process, so ours is used. Its section headers are at its end. */
size_t tables_vdso_bytes(const Elf64_Ehdr *header) {
    size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

bool tables_source(const struct symbol_module *module, struct table_source *source) {
    source->fd = symbol_module_fd(module);
    source->debug_fd = symbol_module_debug_fd(module);
    if (source->debug_fd < 0 || !unwind_table_needs_debug(source->fd, source->debug_fd) ||
        !symbol_module_debug_identity(module, source->identity)) {
        source->debug_fd = -1;
        snprintf(source->identity, sizeof source->identity, "%s",
                 symbol_module_file_identity(module));
    }
    return source->fd >= 0 && source->identity[0];
}

sonde_err tables_get(struct engine *engine, const struct symbol_module *module, int *memfd,
                     size_t *bytes, struct sonde_diag *diag) {
    struct table_source source;
    if (symbol_module_kind(module) == SYMBOL_MODULE_VDSO) {
        const char *identity = symbol_module_file_identity(module);
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
        if (!header)
            return SONDE_NOT_AVAILABLE;
        return unwind_cache_get_memory(engine->unwind, identity[0] ? identity : "vdso", header,
                                       tables_vdso_bytes(header), diag, memfd, bytes);
    }
    if (!tables_source(module, &source))
        return SONDE_NOT_AVAILABLE;
    return unwind_cache_get(engine->unwind, source.identity, source.fd, source.debug_fd, diag,
                            memfd, bytes);
}
