/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample's thread name is a label, so that equal stacks of differently named threads stay apart.
 * The number of a thread is left out: it would make every scrape's samples new ones for a database
 * of profiles.
 *
 * Frames come with the module's name but without its mapping. Each module gets one that covers the
 * addresses seen in it and says that its functions are named, so that go tool pprof does not ask
 * for names again. */
#include "service/rpc/threads/backtraces_profile.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MODULES 256 /* further ones have no mapping */
#define MAX_INLINED 64
#define HALF        (SONDE_PROFILE_MAX_DEPTH / 2) /* of a deep stack: kept at either end */
#define NO_STACK    "[no stack]"
#define TRUNCATED   "[truncated]"

struct module {
    const char *name;
    uint64_t low, high;
    enum sonde_frame_kind kind;
    uint32_t mapping;
};

struct building {
    struct sonde_profile *profile;
    struct module modules[MAX_MODULES];
    size_t module_count;
    uint32_t thread_key;
    uint32_t *locations; /* of the stack at hand */
    uint32_t count, capacity;
};

/* ---- Modules ---- */

static struct module *find_module(struct building *building, const char *name) {
    for (size_t i = 0; i < building->module_count; i++)
        if (strcmp(building->modules[i].name, name) == 0)
            return &building->modules[i];
    return NULL;
}

static void see_frame(struct building *building, const struct engine_thread_frame *frame) {
    struct module *module = find_module(building, frame->module);
    if (!frame->module[0] || (!module && building->module_count == MAX_MODULES))
        return;
    if (!module) {
        module = &building->modules[building->module_count++];
        *module = (struct module){frame->module, frame->address, frame->address, frame->kind, 0};
    }
    if (frame->address < module->low)
        module->low = frame->address;
    if (frame->address > module->high)
        module->high = frame->address;
}

static sonde_err intern(struct sonde_profile *profile, const char *text, uint32_t *id) {
    return sonde_profile_string(profile, text, strlen(text), id);
}

/* The program's own code comes first, because readers take the first mapping for the program. */
static sonde_err add_mappings(struct building *building, bool of_program) {
    sonde_err err = SONDE_OK;
    for (size_t i = 0; !err && i < building->module_count; i++) {
        struct module *module = &building->modules[i];
        struct sonde_mapping mapping = {.start = module->low ? module->low - 1 : 0,
                                        .limit = module->high + 1,
                                        .has_functions = true,
                                        .has_filenames = true,
                                        .has_line_numbers = true,
                                        .has_inline_frames = true};
        if ((module->kind == SONDE_FRAME_APPLICATION) != of_program)
            continue;
        err = intern(building->profile, module->name, &mapping.filename);
        if (!err)
            err = sonde_profile_add_mapping(building->profile, &mapping, &module->mapping);
    }
    return err;
}

static sonde_err map_modules(struct building *building, const struct engine_backtraces *from) {
    for (uint32_t i = 0; i < from->stack_count; i++)
        for (uint32_t k = 0; k < from->stacks[i].count; k++)
            see_frame(building, &from->stacks[i].frames[k]);
    sonde_err err = add_mappings(building, true);
    return err ? err : add_mappings(building, false);
}

/* ---- Stacks ---- */

static sonde_err push(struct building *building, const struct sonde_location *location) {
    if (!array_room(&building->locations, &building->capacity, building->count, 1))
        return SONDE_OUT_OF_MEMORY;
    return sonde_profile_add_location(building->profile, location,
                                      &building->locations[building->count++]);
}

static sonde_err add_line(struct building *building, const struct engine_thread_frame *frame,
                          struct sonde_line *line) {
    struct sonde_function function = {0};
    line->line = frame->line;
    sonde_err err = intern(building->profile, frame->name, &function.name);
    if (!err)
        err = intern(building->profile, frame->file, &function.filename);
    function.system_name = function.name;
    return err ? err : sonde_profile_add_function(building->profile, &function, &line->function);
}

/* Pushes the location of frames[0] to frames[count - 1]: inlined functions, and the function that
 * contains them. */
static sonde_err push_frames(struct building *building, const struct engine_thread_frame *frames,
                             uint32_t count, bool is_leaf) {
    const struct engine_thread_frame *outer = &frames[count - 1];
    const struct module *module = find_module(building, outer->module);
    struct sonde_line lines[MAX_INLINED + 1];
    struct sonde_location location = {
        .mapping = module ? module->mapping : 0,
        .address = outer->address && !is_leaf ? outer->address - 1 : outer->address,
        .kind = outer->kind,
        .lines = lines,
    };
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; !err && i < count; i++)
        if (frames[i].name[0])
            err = add_line(building, &frames[i], &lines[location.line_count++]);
    return err ? err : push(building, &location);
}

static sonde_err push_note(struct building *building, const char *text) {
    const struct engine_thread_frame frame = {
        .name = text, .file = "", .module = "", .kind = SONDE_FRAME_NOTE};
    return push_frames(building, &frame, 1, true);
}

/* Of a stack that is too deep for a profile: the leaf's half, a note, and the root's half. */
static sonde_err cut_middle(struct building *building) {
    if (building->count <= SONDE_PROFILE_MAX_DEPTH)
        return SONDE_OK;
    sonde_err err = push_note(building, TRUNCATED);
    if (err)
        return err;
    uint32_t note = building->locations[--building->count];
    uint32_t root = building->count - (HALF - 1);
    building->locations[HALF] = note;
    memmove(building->locations + HALF + 1, building->locations + root,
            (HALF - 1) * sizeof *building->locations);
    building->count = SONDE_PROFILE_MAX_DEPTH;
    return SONDE_OK;
}

static sonde_err push_stack(struct building *building, const struct engine_thread_stack *stack) {
    sonde_err err = SONDE_OK;
    uint32_t first = 0;
    for (uint32_t i = 0; !err && i < stack->count; i++) {
        bool is_last = !stack->frames[i].is_inlined || i - first == MAX_INLINED;
        if (!is_last && i + 1 < stack->count)
            continue;
        err = push_frames(building, &stack->frames[first], i - first + 1, first == 0);
        first = i + 1;
    }
    return err ? err : cut_middle(building);
}

/* Whether a thread's start function is further in: code of libc and of C++'s std::thread, which
 * runs before it. */
static bool is_before_start(const struct engine_thread_frame *frame) {
    static const char *const names[] = {
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "clone",
        "__libc_start_main_impl",
        "libc_start_main_stage2",
        "__clone",
        "clone3",
        "__clone3",
        "__GI___clone3",
        "start_thread",
        "start",
        "_start_c",
        "execute_native_thread_routine",
    };
    static const char *const beginnings[] = {"std::thread::_", "std::__invoke",
                                             "void std::__invoke"};
    if (!frame->name[0])
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(frame->name, names[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(frame->name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* The outermost frame if none qualifies. */
static sonde_err push_start(struct building *building, const struct engine_thread_stack *stack) {
    uint32_t at = stack->count;
    while (at > 0 && is_before_start(&stack->frames[at - 1]))
        at--;
    if (at == 0)
        at = stack->count;
    return at ? push_frames(building, &stack->frames[at - 1], 1, false) : SONDE_OK;
}

static sonde_err add_thread(struct building *building, const struct engine_backtraces *from,
                            const struct engine_thread *thread, bool by_start_function) {
    static const int64_t one = 1;
    struct sonde_label label = {.key = building->thread_key};
    building->count = 0;
    sonde_err err = intern(building->profile, thread->name, &label.str);
    if (err)
        return err;
    if (thread->stack == 0 || thread->stack > from->stack_count)
        err = push_note(building, NO_STACK);
    else if (by_start_function)
        err = push_start(building, &from->stacks[thread->stack - 1]);
    else
        err = push_stack(building, &from->stacks[thread->stack - 1]);
    const struct sonde_sample sample = {.locations = building->locations,
                                        .location_count = building->count,
                                        .values = &one,
                                        .labels = &label,
                                        .label_count = label.str != 0};
    return err ? err : sonde_profile_add_sample(building->profile, &sample);
}

static sonde_err build(struct building *building, const struct engine_backtraces *from,
                       bool by_start_function) {
    sonde_err err = intern(building->profile, "thread", &building->thread_key);
    if (!err)
        err = map_modules(building, from);
    for (uint32_t i = 0; !err && i < from->thread_count; i++)
        err = add_thread(building, from, &from->threads[i], by_start_function);
    if (!err && from->note[0])
        err = sonde_profile_add_comment(building->profile, from->note);
    free(building->locations);
    return err;
}

sonde_err rpc_backtraces_profile(const struct engine_backtraces *from, bool by_start_function,
                                 struct sonde_profile **profile) {
    const struct sonde_value_type type = {by_start_function ? "threadcreate" : "goroutine",
                                          "count"};
    const struct sonde_profile_info info = {
        .period_type = type, .period = 1, .time_unix_ns = from->unix_ns, .is_unbiased = true};
    struct building building = {.profile = sonde_profile_create(&type, 1, 0)};
    if (!building.profile)
        return SONDE_OUT_OF_MEMORY;
    sonde_profile_set_info(building.profile, &info);
    sonde_err err = build(&building, from, by_start_function);
    *profile = err ? NULL : building.profile;
    if (err)
        sonde_profile_destroy(building.profile);
    return err;
}
