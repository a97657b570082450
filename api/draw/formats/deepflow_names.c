/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/formats/deepflow_names.h"
#include "api/draw/formats/deepflow.h"
#include "api/draw/render.h"

#include <stdio.h>
#include <string.h>

/* ---- Processes and threads ---- */

struct deepflow_process deepflow_process(const struct sonde_profile *profile,
                                         const struct sonde_draw_options *options) {
    const char *name = draw_name(profile, options), *program = draw_program(profile);
    struct deepflow_process process = {.service = name[0] ? name : "all"};
    snprintf(process.service_comm, sizeof process.service_comm, "%s", process.service);
    snprintf(process.program_comm, sizeof process.program_comm, "%s", program);
    return process;
}

/* Stores the number of the label; false if the sample has none. */
static bool number_of(const struct sonde_profile *profile, const struct sonde_sample *sample,
                      const char *key, int64_t *number) {
    for (uint32_t i = 0; i < sample->label_count; i++) {
        const struct sonde_label *label = &sample->labels[i];
        if (label->str || strcmp(sonde_profile_text(profile, label->key), key) != 0)
            continue;
        *number = label->num;
        return true;
    }
    return false;
}

bool deepflow_is_main_thread(const struct sonde_profile *profile, const struct sonde_sample *sample,
                             const struct deepflow_process *process) {
    int64_t pid, tid;
    if (number_of(profile, sample, "pid", &pid) && number_of(profile, sample, "tid", &tid))
        return pid == tid;
    const char *name = sonde_sample_label(profile, sample, "thread");
    return !name[0] || strcmp(name, process->service_comm) == 0 ||
           strcmp(name, process->program_comm) == 0;
}

const char *deepflow_host_process(const struct sonde_profile *profile,
                                  const struct sonde_sample *sample) {
    if (sample->location_count != 1)
        return NULL;
    const struct sonde_location *location = sonde_profile_location(profile, sample->locations[0]);
    if (location->kind != SONDE_FRAME_NOTE || location->mapping || location->address ||
        location->line_count != 1)
        return NULL;
    const struct sonde_function *function =
        sonde_profile_function(profile, location->lines[0].function);
    const char *name = sonde_profile_text(profile, function->name);
    /* "[truncated]" and other notes stand for frames. */
    return name[0] && name[0] != '[' ? name : NULL;
}

/* ---- Frames ---- */

void deepflow_put_name(struct sonde_buf *out, const char *prefix, const char *name) {
    sonde_buf_puts(out, prefix);
    size_t start = out->len;
    sonde_buf_puts(out, name);
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == ';')
            out->data[i] = ':';
}

static const char *path_of(const struct sonde_profile *profile,
                           const struct sonde_location *location) {
    const struct sonde_mapping *mapping = sonde_profile_mapping(profile, location->mapping);
    return mapping ? sonde_profile_text(profile, mapping->filename) : "";
}

/* DeepFlow counts the libraries of CUDA's driver as kernel code. */
static bool is_cuda(const char *path) {
    static const char *const names[] = {"libcuda.so", "libcudart.so", "libcublas", "libcudnn"};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static const char *prefix_of(enum sonde_frame_kind kind, const char *path) {
    if (kind == SONDE_FRAME_KERNEL || is_cuda(path))
        return DEEPFLOW_KERNEL;
    if (kind == SONDE_FRAME_LIBRARY || (kind == SONDE_FRAME_UNKNOWN && strstr(path, ".so")))
        return DEEPFLOW_LIBRARY;
    return "";
}

bool deepflow_is_unknown(const struct sonde_profile *profile,
                         const struct sonde_location *location) {
    return location->line_count == 0 && location->kind != SONDE_FRAME_KERNEL &&
           !path_of(profile, location)[0];
}

/* "[/path/file]", or the address if it is not in a file. */
static void put_unnamed(struct sonde_buf *out, const struct sonde_location *location,
                        const char *path) {
    if (!path[0] || location->kind == SONDE_FRAME_KERNEL) {
        sonde_buf_printf(out, "[unknown] 0x%016llx", (unsigned long long)location->address);
        return;
    }
    bool has_brackets = path[0] == '['; /* "[vdso]" */
    deepflow_put_name(out, has_brackets ? "" : "[", path);
    sonde_buf_puts(out, has_brackets ? "" : "]");
}

/* "[redis-server]+0x64da0", the symbolizer's name for a function of a stripped file. */
static bool is_place(const char *name) {
    const char *offset = name[0] == '[' ? strstr(name, "]+0x") : NULL;
    return offset && !offset[4 + strspn(offset + 4, "0123456789abcdef")];
}

void deepflow_put_line(struct sonde_buf *out, const struct sonde_profile *profile,
                       const struct sonde_location *location, uint32_t line) {
    const char *path = path_of(profile, location), *name = "";
    if (location->line_count > 0) {
        const struct sonde_function *function =
            sonde_profile_function(profile, location->lines[line].function);
        name = sonde_profile_text(profile, function->name);
        if (!name[0])
            name = sonde_profile_text(profile, function->system_name);
    }
    if (name[0] && !(is_place(name) && path[0]))
        deepflow_put_name(out, prefix_of(location->kind, path), name);
    else
        put_unnamed(out, location, path);
}
