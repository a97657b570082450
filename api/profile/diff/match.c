/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that differs between base and now is entered into the translations of a profile_copy
 * before the samples are copied: first the mappings, then the functions with another name, then the
 * locations with another address. */
#include "api/profile/diff/match.h"
#include "api/profile/copy.h"
#include "api/profile/diff/match_names.h"
#include "api/profile/diff/match_places.h"
#include "api/profile/kind.h"
#include "api/profile/select/only_process.h"

#include <stdlib.h>
#include <string.h>

/* A file of now, or of base. */
struct file {
    struct sonde_slice name;
    const char *path, *build_id;
    uint64_t offset;
    uint32_t hash;
    enum sonde_frame_kind kind;
    bool is_taken;      /* of now: a file of base has its name */
    uint32_t match;     /* the mapping of the other profile, 0 = none */
    bool is_same_build; /* as match's */
};

struct match {
    struct profile_copy copy;
    const struct sonde_profile *now;
    struct file *base_files, *now_files; /* by mapping id */
    struct profile_copy of_now;          /* mappings of now, and locations that base has, too */
    struct match_places places;          /* of now */
    struct match_names names;
    uint32_t base_process, now_process; /* functions: the only process of each; 0 = none */
    bool keeps_addresses;
};

/* ---- Files ---- */

/* Kinds that samples have seen are better than guesses from names. */
static void find_kinds(const struct sonde_profile *profile, struct file *files) {
    for (uint32_t id = 1; id <= profile->mappings.count; id++)
        files[id].kind = sonde_profile_guess_kind(profile, id, 0);
    for (uint32_t id = 1; id <= profile->locations.count; id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        if (location->mapping && location->kind != SONDE_FRAME_UNKNOWN)
            files[location->mapping].kind = location->kind;
    }
}

static struct file *read_files(const struct sonde_profile *profile) {
    struct file *files = calloc(profile->mappings.count + 1, sizeof *files);
    if (!files)
        return NULL;
    find_kinds(profile, files);
    for (uint32_t id = 1; id <= profile->mappings.count; id++) {
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, id);
        struct file *file = &files[id];
        file->path = sonde_profile_text(profile, mapping->filename);
        file->build_id = sonde_profile_text(profile, mapping->build_id);
        file->offset = mapping->offset;
        file->name = match_file_name(file->path);
        for (size_t i = 0; i < file->name.len; i++)
            file->hash = file->hash * 31 + (unsigned char)file->name.data[i];
    }
    return files;
}

static bool equal(struct sonde_slice a, struct sonde_slice b) {
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static bool has_same_id(const struct file *a, const struct file *b) {
    return a->build_id[0] && strcmp(a->build_id, b->build_id) == 0;
}

static bool is_same_build(const struct file *a, const struct file *b) {
    return !a->build_id[0] || !b->build_id[0] || has_same_id(a, b);
}

/* The more, the better; 0 = different files. */
static int likeness(const struct file *base, const struct file *now) {
    bool same_name = base->hash == now->hash && equal(base->name, now->name);
    if (!same_name && !has_same_id(base, now))
        return 0;
    return same_name + 8 * has_same_id(base, now) + 4 * is_same_build(base, now) +
           2 * (strcmp(base->path, now->path) == 0) + (base->offset == now->offset);
}

/* Generated code has no file, and its addresses mean something in its own process only. */
static void match_by_name(struct match *match, struct file *base) {
    int best = 0;
    if (!base->name.len || base->kind == SONDE_FRAME_JIT)
        return;
    for (uint32_t id = 1; id <= match->now->mappings.count; id++) {
        struct file *now = &match->now_files[id];
        int found = likeness(base, now);
        now->is_taken |= found > 0;
        if (found > best) {
            best = found;
            base->match = id;
            base->is_same_build = is_same_build(base, now);
        }
    }
}

static bool has_same_role(const struct file *base, const struct file *now) {
    if (base->kind != now->kind || now->is_taken || !base->name.len)
        return false;
    if (base->kind == SONDE_FRAME_LIBRARY)
        return equal(match_library(base->path), match_library(now->path));
    return base->kind == SONDE_FRAME_APPLICATION || base->kind == SONDE_FRAME_KERNEL;
}

static void match_by_role(struct match *match, struct file *base) {
    for (uint32_t id = 1; id <= match->now->mappings.count && !base->match; id++)
        if (has_same_role(base, &match->now_files[id]))
            base->match = id;
}

static sonde_err match_files(struct match *match) {
    const struct sonde_profile *base = match->copy.from;
    match->base_files = read_files(base);
    match->now_files = read_files(match->now);
    if (!match->base_files || !match->now_files)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= base->mappings.count; id++)
        match_by_name(match, &match->base_files[id]);
    for (uint32_t id = 1; id <= base->mappings.count; id++)
        if (!match->base_files[id].match)
            match_by_role(match, &match->base_files[id]);
    for (uint32_t id = base->mappings.count; id > 0; id--) {
        struct file *now = &match->now_files[match->base_files[id].match];
        now->match = id;
        now->is_same_build = match->base_files[id].is_same_build;
    }
    return SONDE_OK;
}

/* The mappings of now come first, in their order. Those of base follow if they are only there. */
static sonde_err copy_mappings(struct match *match) {
    sonde_err err = profile_copy_init(&match->of_now, match->copy.into, match->now);
    for (uint32_t id = 1; id <= match->copy.from->mappings.count && !err; id++) {
        uint32_t same = match->base_files[id].match;
        if (same)
            match->copy.mappings[id] = match->of_now.mappings[same];
        else
            err = profile_copy_mapping(&match->copy, id);
    }
    return err;
}

/* ---- Functions ---- */

/* What base's function is called in now. */
static const char *name_in_now(const struct match *match, uint32_t id, const char *name) {
    const struct sonde_profile *now = match->now;
    if (id == match->base_process)
        return sonde_profile_text(now, sonde_profile_function(now, match->now_process)->name);
    return match_names_find(&match->names, name);
}

static sonde_err rename_functions(struct match *match) {
    const struct sonde_profile *base = match->copy.from;
    struct sonde_profile *into = match->copy.into;
    sonde_err err = match_names_init(&match->names, match->now);
    match->now_process = sonde_profile_only_process(match->now);
    match->base_process = match->now_process ? sonde_profile_only_process(base) : 0;
    for (uint32_t id = 1; id <= base->functions.count && !err; id++) {
        struct sonde_function function = *sonde_profile_function(base, id);
        const char *name = sonde_profile_text(base, function.name);
        const char *path = sonde_profile_text(base, function.filename);
        const char *new_name = name_in_now(match, id, name);
        if (strcmp(name, new_name) == 0)
            continue;
        err = sonde_profile_string(into, new_name, strlen(new_name), &function.name);
        if (function.system_name)
            function.system_name = function.name;
        if (!err)
            err = sonde_profile_string(into, path, strlen(path), &function.filename);
        if (!err)
            err = sonde_profile_add_function(into, &function, &match->copy.functions[id]);
    }
    return err;
}

/* ---- Code without names in another build ---- */

static sonde_err copy_samples(struct profile_copy *copy) {
    struct profile_copied_sample copied;
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sonde_profile_sample_count(copy->from) && !err; i++) {
        err = profile_copy_sample(copy, i, 0, 0, &copied);
        if (!err)
            err = sonde_profile_add_sample(copy->into, &copied.sample);
    }
    return err;
}

/* Enters "[libssl.so.3]", at the start of the mapping `into_id`, for a location. */
static sonde_err name_by_file(struct profile_copy *copy, uint32_t id, const struct file *file,
                              uint32_t into_id) {
    struct sonde_location location = *sonde_profile_location(copy->from, id);
    struct sonde_function made_up = {0};
    struct sonde_line line = {0};
    struct sonde_buf name = {0};
    sonde_buf_printf(&name, "[%.*s]", (int)file->name.len, file->name.data);
    sonde_err err = name.failed
                        ? SONDE_OUT_OF_MEMORY
                        : sonde_profile_string(copy->into, name.data, name.len, &made_up.name);
    sonde_buf_finish(&name);
    made_up.system_name = made_up.name;
    if (!err)
        err = sonde_profile_add_function(copy->into, &made_up, &line.function);
    location.lines = &line;
    location.line_count = 1;
    location.mapping = into_id;
    location.address = sonde_profile_mapping(copy->into, into_id)->start;
    return err ? err : sonde_profile_add_location(copy->into, &location, &copy->locations[id]);
}

/* Functions of a stripped file are named after where they start. */
static bool is_unnamed(const struct sonde_profile *profile, const struct sonde_location *location) {
    if (location->line_count != 1)
        return location->line_count == 0;
    uint32_t name = sonde_profile_function(profile, location->lines[0].function)->name;
    const char *text = sonde_profile_text(profile, name);
    return text[0] == '[' && strstr(text, "]+0x");
}

static bool is_unnamed_of_other_build(const struct sonde_profile *profile,
                                      const struct sonde_location *location,
                                      const struct file *file) {
    return location->mapping && file->match && !file->is_same_build &&
           is_unnamed(profile, location);
}

/* Copies `now`. Unnamed code is named after its file if `base` has another build of that file,
 * because their addresses cannot be compared. */
static sonde_err name_now(const struct match *match, struct sonde_profile **named) {
    const struct sonde_profile *now = match->now;
    struct profile_copy copy;
    struct sonde_profile *into = profile_copy_empty(now);
    if (!into)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_init(&copy, into, now);
    for (uint32_t id = 1; id <= now->locations.count && !err; id++) {
        const struct sonde_location *location = sonde_profile_location(now, id);
        const struct file *file = &match->now_files[location->mapping];
        if (is_unnamed_of_other_build(now, location, file))
            err = name_by_file(&copy, id, file, copy.mappings[location->mapping]);
    }
    if (!err)
        err = copy_samples(&copy);
    profile_copy_finish(&copy);
    if (err)
        sonde_profile_destroy(into);
    else
        *named = into;
    return err;
}

static bool has_unnamed(const struct match *match) {
    for (uint32_t id = 1; id <= match->now->locations.count; id++) {
        const struct sonde_location *location = sonde_profile_location(match->now, id);
        if (is_unnamed_of_other_build(match->now, location, &match->now_files[location->mapping]))
            return true;
    }
    return false;
}

/* ---- The base ---- */

/* In the same build the code is at the same place of the file, in another it is anywhere. */
static uint64_t move(const struct match *match, const struct sonde_location *location) {
    const struct file *file = &match->base_files[location->mapping];
    const struct sonde_mapping *base = sonde_profile_mapping(match->copy.from, location->mapping);
    const struct sonde_mapping *now = sonde_profile_mapping(match->now, file->match);
    if (!file->is_same_build)
        return now->start;
    return location->address - base->start + base->offset - now->offset + now->start;
}

/* In the file of base. */
static sonde_err keep_location(struct match *match, uint32_t id) {
    struct sonde_location location = *sonde_profile_location(match->copy.from, id);
    uint32_t *entry = &match->copy.mappings[location.mapping], translated = *entry;
    sonde_err err = profile_copy_mapping(&match->copy, location.mapping);
    if (!err)
        err = profile_copy_location_at(&match->copy, id, location.address);
    *entry = translated;
    return err;
}

/* One address of one build is the same code, whatever it was called when base was made. */
static sonde_err move_location(struct match *match, uint32_t id) {
    const struct sonde_location *location = sonde_profile_location(match->copy.from, id);
    const struct file *file = &match->base_files[location->mapping];
    uint64_t address = move(match, location);
    uint32_t same = 0;
    if (has_same_id(file, &match->now_files[file->match]))
        same = match_places_find(&match->places, file->match, address);
    return same ? profile_copy_location(&match->of_now, same, &match->copy.locations[id])
                : profile_copy_location_at(&match->copy, id, address);
}

static sonde_err translate_locations(struct match *match) {
    const struct sonde_profile *base = match->copy.from;
    sonde_err err = match_places_init(&match->places, match->now);
    for (uint32_t id = 1; id <= base->locations.count && !err; id++) {
        const struct sonde_location *location = sonde_profile_location(base, id);
        const struct file *file = &match->base_files[location->mapping];
        if (!location->mapping || !file->match)
            continue;
        if (is_unnamed_of_other_build(base, location, file))
            err = match->keeps_addresses
                      ? keep_location(match, id)
                      : name_by_file(&match->copy, id, &match->now_files[file->match],
                                     match->of_now.mappings[file->match]);
        else
            err = move_location(match, id);
    }
    return err;
}

static sonde_err copy_base(struct match *match) {
    sonde_err err = copy_mappings(match);
    if (!err)
        err = rename_functions(match);
    if (!err)
        err = translate_locations(match);
    return err ? err : copy_samples(&match->copy);
}

sonde_err profile_match(const struct sonde_profile *base, const struct sonde_profile *now,
                        bool keep_addresses, struct profile_pair *pair) {
    struct match match = {.now = now, .keeps_addresses = keep_addresses};
    *pair = (struct profile_pair){.now = now, .owned_base = profile_copy_empty(base)};
    pair->base = pair->owned_base;
    if (!pair->owned_base)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = profile_copy_begin(&match.copy, pair->owned_base, base);
    if (!err)
        err = match_files(&match);
    if (!err)
        err = copy_base(&match);
    if (!err && !keep_addresses && has_unnamed(&match))
        err = name_now(&match, &pair->owned_now);
    if (pair->owned_now)
        pair->now = pair->owned_now;
    profile_copy_finish(&match.copy);
    match_names_finish(&match.names);
    free(match.base_files);
    free(match.now_files);
    profile_copy_finish(&match.of_now);
    match_places_finish(&match.places);
    return err;
}

void profile_pair_finish(struct profile_pair *pair) {
    sonde_profile_destroy(pair->owned_base);
    sonde_profile_destroy(pair->owned_now);
}
