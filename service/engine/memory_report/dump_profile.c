/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/memory_report/dump_profile.h"

#include "api/profile/heap/jemalloc.h"
#include "api/profile/heap/memory.h"
#include "service/engine/code/tables.h"
#include "service/engine/core/target.h"
#include "service/engine/memory_report/heap_places.h"
#include "service/engine/report/report.h"
#include "service/symbol/locate/proc_maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE  4096u
#define MAX_LINES 65536u /* most mappings */
#define MAX_NAMES 64u    /* most functions inlined at one address */
/* How long to wait for line tables that are being built, so that even the first heap profile of a
 * program has inlined functions and lines. */
#define LINES_WAIT_MS 1500u

struct naming {
    struct engine *engine;
    const struct process_identity *process;
    struct generation *mapped;
    const struct sonde_profile *from;
    struct sonde_profile *into;
    struct sonde_arena arena;
    struct symbol_query *queries; /* one per location, in the same order */
    struct symbol_answer *answers;
    uint32_t *mappings, *locations; /* old id → new id */
};

/* ---- Mappings ---- */

struct generation *heap_mappings(struct sonde_slice lines) {
    struct generation *mapped = generation_create(0);
    const char *at = lines.data, *end = lines.data + lines.len;
    for (uint32_t i = 0; mapped && i < MAX_LINES && at < end; i++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
        struct proc_maps_line line;
        char text[MAX_LINE];
        size_t len = (size_t)(stop - at) < sizeof text ? (size_t)(stop - at) : sizeof text - 1;
        memcpy(text, at, len);
        text[len] = 0;
        at = stop + 1;
        if (proc_maps_parse(text, &line) && line.is_executable &&
            generation_add(mapped, &line.mapping) != SONDE_OK)
            break;
    }
    if (mapped)
        generation_sort(mapped, NULL);
    return mapped;
}

struct sonde_slice heap_mapped_libraries(struct sonde_slice dump) {
    static const char marker[] = "\nMAPPED_LIBRARIES:\n";
    const char *found = memmem(dump.data, dump.len, marker, sizeof marker - 1);
    if (!found)
        return (struct sonde_slice){dump.data + dump.len, 0};
    found += sizeof marker - 1;
    return (struct sonde_slice){found, (size_t)(dump.data + dump.len - found)};
}

/* ---- Names ---- */

/* A stand-in's origin was opened while it was mapped, so its names survive the file. */
static const struct mapping *named_mapping(const struct mapping *mapping) {
    return mapping->origin && mapping_module(mapping->origin) ? mapping->origin : mapping;
}

static const char *note_of(const struct mapping *mapping) {
    return heap_places_note(mapping->start, mapping->path);
}

static void place(struct naming *naming, uint32_t location) {
    uint64_t address = sonde_profile_location(naming->from, location)->address;
    struct mapping *mapping = generation_find(naming->mapped, address);
    if (!mapping || note_of(mapping))
        return;
    const struct mapping *named = named_mapping(mapping);
    if (named == mapping)
        tables_open_mapping(naming->engine, naming->process, mapping);
    struct symbol_module *module = mapping_module(named);
    if (!module || !named->has_bias)
        return;
    naming->queries[location - 1].module = module;
    naming->queries[location - 1].vaddr = address - mapping->start + named->start - named->bias;
    naming->queries[location - 1].module_name = mapping_program_name(named);
}

static sonde_err resolve(struct naming *naming) {
    size_t count = sonde_profile_location_count(naming->from);
    naming->queries = calloc(count + 1, sizeof *naming->queries);
    naming->answers = calloc(count + 1, sizeof *naming->answers);
    naming->locations = calloc(count + 1, sizeof *naming->locations);
    naming->mappings =
        calloc(sonde_profile_mapping_count(naming->from) + 1, sizeof *naming->mappings);
    if (!naming->queries || !naming->answers || !naming->locations || !naming->mappings)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= count; id++)
        place(naming, id);
    return symbol_resolve_wait(naming->engine->symbols, naming->queries, count, LINES_WAIT_MS,
                               &naming->arena, naming->answers);
}

/* ---- The new profile ---- */

static sonde_err intern(struct naming *naming, const char *text, uint32_t *id) {
    return sonde_profile_string(naming->into, text ? text : "", text ? strlen(text) : 0, id);
}

static sonde_err add_mapping(struct naming *naming, uint32_t old_id) {
    struct sonde_mapping facts = *sonde_profile_mapping(naming->from, old_id);
    const struct mapping *mapping = generation_find(naming->mapped, facts.start);
    if (mapping && note_of(mapping))
        return SONDE_OK;
    mapping = mapping ? named_mapping(mapping) : NULL;
    const struct symbol_module *module = mapping ? mapping_module(mapping) : NULL;
    const char *path = sonde_profile_text(naming->from, facts.filename);
    if (mapping && path[0])
        path = mapping_shown_path(mapping);
    sonde_err err = intern(naming, path[0] ? path : "[anon]", &facts.filename);
    facts.build_id = 0;
    facts.has_functions = module != NULL;
    if (!err && module)
        err = intern(naming, symbol_module_build_id(module), &facts.build_id);
    return err ? err : sonde_profile_add_mapping(naming->into, &facts, &naming->mappings[old_id]);
}

static bool is_program(const struct naming *naming, uint32_t id) {
    const struct mapping *mapping =
        generation_find(naming->mapped, sonde_profile_mapping(naming->from, id)->start);
    return mapping && mapping_kind(named_mapping(mapping)) == SYMBOL_MODULE_EXECUTABLE;
}

/* pprof's tools expect the main program first. */
static sonde_err add_mappings(struct naming *naming) {
    size_t count = sonde_profile_mapping_count(naming->from);
    sonde_err err = SONDE_OK;
    for (int round = 0; round < 2; round++)
        for (uint32_t id = 1; id <= count && !err; id++)
            if (is_program(naming, id) == (round == 0))
                err = add_mapping(naming, id);
    return err;
}

static sonde_err add_line(struct naming *naming, const struct symbol_frame *frame,
                          struct sonde_line *line) {
    struct sonde_function function = {0};
    sonde_err err = intern(naming, frame->name, &function.name);
    if (!err)
        err = intern(naming, frame->system_name, &function.system_name);
    if (!err)
        err = intern(naming, frame->file, &function.filename);
    line->line = frame->line;
    return err ? err : sonde_profile_add_function(naming->into, &function, &line->function);
}

static sonde_err add_note(struct naming *naming, uint32_t id, const char *note) {
    struct symbol_frame frame = {.name = note};
    struct sonde_line line;
    struct sonde_location location = {.line_count = 1, .lines = &line, .kind = SONDE_FRAME_NOTE};
    sonde_err err = add_line(naming, &frame, &line);
    return err ? err : sonde_profile_add_location(naming->into, &location, &naming->locations[id]);
}

static sonde_err add_location(struct naming *naming, uint32_t id) {
    const struct symbol_answer *answer = &naming->answers[id - 1];
    struct sonde_location location = *sonde_profile_location(naming->from, id);
    struct sonde_line lines[MAX_NAMES];
    struct symbol_frame unnamed;
    const struct symbol_frame *frames;
    const struct mapping *mapping = generation_find(naming->mapped, location.address);
    const char *note = mapping ? note_of(mapping) : NULL;
    if (note)
        return add_note(naming, id, note);
    uint32_t count = symbol_answer_frames(answer, &unnamed, &frames);
    count = count < MAX_NAMES ? count : MAX_NAMES;
    for (uint32_t i = 0; i < count; i++) {
        sonde_err err = add_line(naming, &frames[i], &lines[i]);
        if (err)
            return err;
    }
    location.mapping = naming->mappings[location.mapping];
    location.line_count = count;
    location.lines = lines;
    location.is_folded = answer->is_folded;
    location.kind = report_kind(naming->queries[id - 1].module);
    return sonde_profile_add_location(naming->into, &location, &naming->locations[id]);
}

static sonde_err add_sample(struct naming *naming, size_t index) {
    uint32_t stack[SONDE_PROFILE_MAX_DEPTH];
    struct sonde_sample sample = sonde_profile_sample(naming->from, index);
    for (uint32_t i = 0; i < sample.location_count; i++)
        stack[i] = naming->locations[sample.locations[i]];
    sample.locations = stack;
    sample.label_count = 0; /* such dumps have none */
    return sonde_profile_add_sample(naming->into, &sample);
}

static sonde_err rebuild(struct naming *naming) {
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES];
    size_t count = sonde_profile_type_count(naming->from);
    for (size_t i = 0; i < count; i++)
        types[i] = sonde_profile_type(naming->from, i);
    naming->into = sonde_profile_create(types, count, REPORT_MAX_BYTES);
    sonde_err err = naming->into ? add_mappings(naming) : SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= sonde_profile_location_count(naming->from) && !err; id++)
        err = add_location(naming, id);
    for (size_t i = 0; i < sonde_profile_sample_count(naming->from) && !err; i++)
        err = add_sample(naming, i);
    if (!err)
        sonde_profile_set_info(naming->into, sonde_profile_info(naming->from));
    return err;
}

/* ---- The allocator's frames ---- */

static bool begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether the allocator is a library of its own, so that its frames are recognized by their
 * module. */
static bool has_library(const struct sonde_profile *profile) {
    for (uint32_t id = 1; id <= sonde_profile_mapping_count(profile); id++) {
        const char *path =
            sonde_profile_text(profile, sonde_profile_mapping(profile, id)->filename);
        const char *slash = strrchr(path, '/');
        if (begins(slash ? slash + 1 : path, "libjemalloc"))
            return true;
    }
    return false;
}

static sonde_err trim(const struct sonde_profile *named, struct sonde_profile **profile,
                      struct sonde_diag *diag) {
    bool is_built_in = !has_library(named);
    return sonde_memory_trim(named, sonde_memory_of_allocator, &is_built_in, profile, diag);
}

static void naming_finish(struct naming *naming) {
    sonde_profile_destroy(naming->into);
    sonde_arena_finish(&naming->arena);
    free(naming->queries);
    free(naming->answers);
    free(naming->mappings);
    free(naming->locations);
}

static sonde_err name_all(struct naming *naming, struct sonde_diag *diag) {
    sonde_err err = resolve(naming);
    if (!err)
        err = rebuild(naming);
    return err ? sonde_fail(diag, err, "heap profile: %s", sonde_diag_text(NULL, err)) : SONDE_OK;
}

static sonde_err name(struct engine *engine, const struct process_identity *process,
                      const struct sonde_profile *raw, struct generation *mapped, bool keep_frames,
                      struct sonde_profile **profile, struct sonde_diag *diag) {
    struct naming naming = {.engine = engine, .process = process, .from = raw, .mapped = mapped};
    sonde_err err = name_all(&naming, diag);
    if (!err && keep_frames) {
        *profile = naming.into;
        naming.into = NULL;
    } else if (!err) {
        err = trim(naming.into, profile, diag);
    }
    naming_finish(&naming);
    return err;
}

/* The id of the location as a leaf: itself, 0 = none, or a new one without the innermost lines. */
static sonde_err find_leaf(struct sonde_profile *profile, uint32_t id, bool is_built_in,
                           uint32_t *leaf) {
    struct sonde_location location = *sonde_profile_location(profile, id);
    uint32_t own = sonde_memory_of_allocator(&is_built_in, profile, &location);
    *leaf = own == SONDE_MEMORY_WHOLE ? 0 : id;
    if (own == 0 || own == SONDE_MEMORY_WHOLE)
        return SONDE_OK;
    location.lines += own;
    location.line_count -= own;
    return sonde_profile_add_location(profile, &location, leaf);
}

/* Sonde's sampler starts at the allocator's caller, so only wrappers around it have to be
 * recognized, unless it was called by a hook of an allocator inside the program. */
static sonde_err find_leaves(struct heap_located *located, bool is_built_in) {
    size_t count = sonde_profile_location_count(located->profile);
    located->leaves = calloc(2 * count + 1, sizeof *located->leaves);
    sonde_err err = located->leaves ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= count && !err; id++)
        err = find_leaf(located->profile, id, is_built_in, &located->leaves[id]);
    for (uint32_t id = (uint32_t)count + 1;
         !err && id <= sonde_profile_location_count(located->profile); id++)
        located->leaves[id] = id;
    return err;
}

sonde_err heap_profile_locate(struct engine *engine, const struct process_identity *process,
                              const struct sonde_profile *raw, struct generation *mapped,
                              bool is_built_in, bool keep_frames, struct heap_located *located,
                              struct sonde_diag *diag) {
    struct naming naming = {.engine = engine, .process = process, .from = raw, .mapped = mapped};
    *located = (struct heap_located){0};
    sonde_err err = name_all(&naming, diag);
    if (!err) {
        *located = (struct heap_located){.profile = naming.into, .locations = naming.locations};
        naming.into = NULL;
        naming.locations = NULL;
        err = keep_frames ? SONDE_OK : find_leaves(located, is_built_in);
    }
    naming_finish(&naming);
    if (err)
        heap_located_finish(located);
    return err;
}

void heap_located_finish(struct heap_located *located) {
    sonde_profile_destroy(located->profile);
    free(located->locations);
    free(located->leaves);
    *located = (struct heap_located){0};
}

sonde_err heap_profile_build(struct engine *engine, const struct process_identity *process,
                             const struct mapping_lives *lives, struct heap_text *dump,
                             bool keep_frames, struct sonde_profile **profile,
                             struct sonde_diag *diag) {
    struct sonde_slice text = dump->bytes;
    struct sonde_profile *raw = NULL;
    *profile = NULL;
    sonde_err err = sonde_jemalloc_read(text, REPORT_MAX_BYTES, &raw, diag);
    struct generation *mapped = err ? NULL : heap_mappings(heap_mapped_libraries(text));
    heap_text_finish(dump);
    if (err)
        return err;
    if (mapped)
        heap_places_adopt(lives, mapped);
    err = mapped ? name(engine, process, raw, mapped, keep_frames, profile, diag)
                 : SONDE_OUT_OF_MEMORY;
    sonde_profile_destroy(raw);
    generation_destroy(mapped);
    return err;
}
