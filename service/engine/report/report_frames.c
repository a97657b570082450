/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report_frames.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LINES      64u   /* functions inlined at one address */
#define MAX_SHORTFALLS 4096u /* bytes; the last module's text may go beyond them */
#define MAX_ADVICE     (4 * PROGRAM_ADVICE)

/* A mapping and its entry in the profile. */
struct located_mapping {
    struct mapping *mapping;
    struct sonde_mapping entry;
    uint32_t id;
    bool is_main, lacks_names;
};

struct locating {
    struct report_frames *frames;
    struct sonde_profile *profile;
    struct sonde_arena arena;
    struct symbol_query *queries;
    struct symbol_answer *answers;
    uint32_t query_count;
    struct located_mapping *mappings;
    uint32_t mapping_count;
    bool has_jit_names;
};

void report_frames_init(struct report_frames *frames) {
    *frames = (struct report_frames){0};
    hash_index_init(&frames->index);
}

void report_frames_finish(struct report_frames *frames) {
    free(frames->items);
    hash_index_finish(&frames->index);
    sonde_buf_finish(&frames->shortfalls);
    sonde_buf_finish(&frames->advice);
    memset(frames, 0, sizeof *frames);
}

static uint32_t frame_hash(const struct hash_index *index, const struct report_frame *frame) {
    return frame->text ? hash_index_data(index, frame->text, strlen(frame->text))
                       : hash_index_words(index, frame->pc, (uintptr_t)frame->mapping);
}

static bool is_same(const struct report_frame *a, const struct report_frame *b) {
    if (a->text && b->text)
        return strcmp(a->text, b->text) == 0;
    return !a->text && !b->text && a->pc == b->pc && a->mapping == b->mapping;
}

static uint32_t find(const struct report_frames *frames, uint32_t hash,
                     const struct report_frame *wanted) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&frames->index, &probe)) != HASH_INDEX_NONE) {
        if (is_same(&frames->items[number], wanted))
            break;
    }
    return number;
}

static sonde_err grow(struct report_frames *frames) {
    uint32_t capacity = frames->capacity ? frames->capacity * 2 : 1024;
    struct report_frame *items = realloc(frames->items, capacity * sizeof *items);
    if (!items)
        return SONDE_OUT_OF_MEMORY;
    frames->items = items;
    frames->capacity = capacity;
    return SONDE_OK;
}

/* NULL: the node is code. */
static const char *text_of(const struct stacks *stacks, const struct stack_node *node) {
    if (node->mapping == STACKS_NOTE)
        return stack_note_text(node->pc);
    return node->mapping == STACKS_PROCESS ? stacks_process(stacks, node->pc) : NULL;
}

sonde_err report_frames_add(struct report_frames *frames, const struct stacks *stacks,
                            const struct stack_node *node, uint32_t *number) {
    struct report_frame wanted = {.text = text_of(stacks, node)};
    if (!wanted.text) {
        wanted.pc = node->pc;
        wanted.mapping = stacks_mapping(stacks, node->mapping);
    }
    uint32_t hash = frame_hash(&frames->index, &wanted);
    *number = find(frames, hash, &wanted);
    if (*number != HASH_INDEX_NONE)
        return SONDE_OK;
    sonde_err err = frames->count == frames->capacity ? grow(frames) : SONDE_OK;
    if (err)
        return err;
    if (!hash_index_add(&frames->index, hash, frames->count))
        return SONDE_OUT_OF_MEMORY;
    *number = frames->count++;
    frames->items[*number] = wanted;
    return SONDE_OK;
}

/* pprof expects addresses inside of instructions, so a return address is moved back into its call.
 */
static uint64_t address_of(const struct report_frame *frame) {
    uint64_t address = frame->pc & ~RING_PC_EXACT;
    return frame->pc & RING_PC_EXACT || address == 0 ? address : address - 1;
}

/* As profiles show it: the kernel's addresses have bit 63 set. */
static uint64_t shown(const struct mapping *mapping, uint64_t address) {
    return mapping && mapping->is_kernel ? address | RING_PC_EXACT : address;
}

static void add_query(struct locating *locating, struct report_frame *frame) {
    if (!frame->mapping)
        return;
    struct symbol_module *module = mapping_module(frame->mapping);
    if (!module || !frame->mapping->has_bias ||
        !atomic_load_explicit(&frame->mapping->has_names, memory_order_acquire))
        return;
    locating->queries[locating->query_count++] = (struct symbol_query){
        .module = module,
        .vaddr = address_of(frame) - frame->mapping->bias,
        .module_name = mapping_program_name(frame->mapping),
    };
    frame->query = locating->query_count;
}

static sonde_err resolve(struct locating *locating, struct symbol_store *symbols) {
    uint32_t count = locating->frames->count;
    if (!symbols || count == 0)
        return SONDE_OK;
    locating->queries = calloc(count, sizeof *locating->queries);
    locating->answers = calloc(count, sizeof *locating->answers);
    if (!locating->queries || !locating->answers)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        add_query(locating, &locating->frames->items[i]);
    return symbol_resolve(symbols, locating->queries, locating->query_count, &locating->arena,
                          locating->answers);
}

static const struct symbol_answer *answer_of(const struct locating *locating,
                                             const struct report_frame *frame) {
    static const struct symbol_answer nothing;
    return frame->query ? &locating->answers[frame->query - 1] : &nothing;
}

/* The executable first, because pprof's tools expect that; the others by address. */
static int by_place(const void *a, const void *b) {
    const struct located_mapping *left = a, *right = b;
    if (left->is_main != right->is_main)
        return left->is_main ? -1 : 1;
    return (left->entry.start > right->entry.start) - (left->entry.start < right->entry.start);
}

static int by_pointer(const void *a, const void *b) {
    const struct located_mapping *left = a, *right = b;
    return (left->mapping > right->mapping) - (left->mapping < right->mapping);
}

static struct located_mapping *located(const struct locating *locating, struct mapping *mapping) {
    struct located_mapping wanted = {.mapping = mapping};
    if (!mapping || locating->mapping_count == 0)
        return NULL;
    return bsearch(&wanted, locating->mappings, locating->mapping_count, sizeof wanted, by_pointer);
}

/* Collects the distinct mappings of all frames, sorted by pointer. */
static sonde_err collect_mappings(struct locating *locating) {
    struct report_frames *frames = locating->frames;
    locating->mappings = calloc(frames->count ? frames->count : 1, sizeof *locating->mappings);
    if (!locating->mappings)
        return SONDE_OUT_OF_MEMORY;
    uint32_t count = 0, kept = 0;
    struct mapping *last = NULL;
    for (uint32_t i = 0; i < frames->count; i++) {
        struct mapping *mapping = frames->items[i].mapping;
        if (mapping && mapping != last) /* most duplicates are adjacent */
            locating->mappings[count++].mapping = last = mapping;
    }
    if (count > 0)
        qsort(locating->mappings, count, sizeof *locating->mappings, by_pointer);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || locating->mappings[i].mapping != locating->mappings[i - 1].mapping)
            locating->mappings[kept++] = locating->mappings[i];
    }
    locating->mapping_count = kept;
    return SONDE_OK;
}

/* A mapping has functions, files and lines if any answer for its frames has them. */
static void mark_answers(struct locating *locating) {
    for (uint32_t i = 0; i < locating->frames->count; i++) {
        const struct report_frame *frame = &locating->frames->items[i];
        const struct symbol_answer *answer = answer_of(locating, frame);
        struct located_mapping *mapping = located(locating, frame->mapping);
        if (mapping && frame->query && answer->frame_count == 0)
            mapping->lacks_names = true;
        if (!mapping || answer->frame_count == 0)
            continue;
        locating->has_jit_names |= symbol_module_is_memory(mapping_module(frame->mapping));
        struct sonde_mapping *entry = &mapping->entry;
        entry->has_functions = true;
        entry->has_filenames |= answer->frames[0].file[0] != 0;
        entry->has_line_numbers |= answer->frames[0].line != 0;
        entry->has_inline_frames |= answer->frame_count > 1 || answer->quality == SYMBOL_FULL;
    }
}

static sonde_err intern(struct sonde_profile *profile, const char *text, uint32_t *id) {
    return sonde_profile_string(profile, text, strlen(text), id);
}

/* The process's path of the file. A module may be called by another path, if the file is there
 * twice. */
static const char *path_of(const struct mapping *mapping) {
    const struct symbol_module *module = mapping_module(mapping);
    if (mapping->path[0])
        return mapping_shown_path(mapping);
    /* anonymous memory; if a program has copied itself there, the module is the program */
    return module && !symbol_module_is_memory(module) ? symbol_module_path(module) : "[anon]";
}

static sonde_err add_mapping(struct locating *locating, struct located_mapping *mapping) {
    const struct symbol_module *module = mapping_module(mapping->mapping);
    const char *path = path_of(mapping->mapping);
    struct sonde_mapping *entry = &mapping->entry;
    sonde_err err = intern(locating->profile, path, &entry->filename);
    if (!err && module)
        err = intern(locating->profile, symbol_module_build_id(module), &entry->build_id);
    if (err)
        return err;
    return sonde_profile_add_mapping(locating->profile, entry, &mapping->id);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Explains for each module without a line table why it has none, if it could have one. Mappings of
 * the same module are adjacent. */
static void describe_shortfalls(struct locating *locating) {
    struct sonde_buf *text = &locating->frames->shortfalls;
    const struct symbol_module *last = NULL;
    char sentence[SYMBOL_SENTENCE];
    for (uint32_t i = 0; i < locating->mapping_count && text->len < MAX_SHORTFALLS; i++) {
        struct symbol_module *module = mapping_module(locating->mappings[i].mapping);
        bool lacks = module && module != last && locating->queries &&
                     !locating->mappings[i].entry.has_line_numbers;
        last = module;
        if (!lacks)
            continue;
        const char *name = base_name(path_of(locating->mappings[i].mapping));
        if (symbol_module_is_converting(module))
            sonde_buf_printf(text, "%s%s: line numbers are being prepared; capture again",
                             text->len ? "; " : "", name);
        else if (symbol_module_failure(module, sentence))
            sonde_buf_printf(text, "%s%s: no line numbers: %s", text->len ? "; " : "", name,
                             sentence);
    }
}

/* Adds a line unless it is there or there are enough. */
static void add_advice(struct sonde_buf *lines, const char *text) {
    if (!text[0] || lines->len + PROGRAM_ADVICE > MAX_ADVICE ||
        (lines->len && strstr(lines->data, text)))
        return;
    sonde_buf_printf(lines, "%s\n", text);
}

static void advise_runtime(struct locating *locating, const char *program) {
    char text[PROGRAM_ADVICE];
    enum program_kind kind = program_kind_of_runtime(program);
    program_advice(locating->has_jit_names ? PROGRAM_OTHER : kind, program, NULL, text);
    add_advice(&locating->frames->advice, text);
}

/* Code of a runtime that was not started for profilers, and stripped files. The program's first. */
static void advise(struct locating *locating, bool about_programs) {
    char text[PROGRAM_ADVICE];
    for (uint32_t i = 0; i < locating->mapping_count && locating->queries; i++) {
        const struct located_mapping *mapping = &locating->mappings[i];
        struct symbol_module *module = mapping_module(mapping->mapping);
        const char *name = base_name(path_of(mapping->mapping));
        enum program_kind kind = program_kind_of_runtime(name);
        if (!module || mapping->is_main != about_programs)
            continue;
        if (mapping->is_main && kind != PROGRAM_OTHER) {
            advise_runtime(locating, name);
        } else if (mapping->lacks_names && symbol_module_advice(module, name, text)) {
            add_advice(&locating->frames->advice, text);
        }
    }
}

static void sort_mappings(struct locating *locating, int (*order)(const void *, const void *)) {
    if (locating->mapping_count > 1)
        qsort(locating->mappings, locating->mapping_count, sizeof *locating->mappings, order);
}

static sonde_err add_mappings(struct locating *locating) {
    sonde_err err = collect_mappings(locating);
    if (err)
        return err;
    for (uint32_t i = 0; i < locating->mapping_count; i++) {
        const struct mapping *mapping = locating->mappings[i].mapping;
        locating->mappings[i].is_main = mapping_kind(mapping) == SYMBOL_MODULE_EXECUTABLE;
        locating->mappings[i].entry =
            (struct sonde_mapping){.start = shown(mapping, mapping->start),
                                   .limit = shown(mapping, mapping->end),
                                   .offset = mapping->offset};
    }
    mark_answers(locating);
    describe_shortfalls(locating);
    if (locating->frames->count > 0 &&
        locating->queries) /* Java spends no time in the file `java` */
        advise_runtime(locating, locating->frames->executable);
    advise(locating, true);
    advise(locating, false);
    sort_mappings(locating, by_place);
    for (uint32_t i = 0; i < locating->mapping_count && !err; i++)
        err = add_mapping(locating, &locating->mappings[i]);
    sort_mappings(locating, by_pointer);
    return err;
}

enum sonde_frame_kind report_kind(const struct symbol_module *module) {
    switch (module ? symbol_module_kind(module) : SYMBOL_MODULE_NONE) {
    case SYMBOL_MODULE_EXECUTABLE:
        return SONDE_FRAME_APPLICATION;
    case SYMBOL_MODULE_LIBRARY:
    case SYMBOL_MODULE_VDSO:
        return SONDE_FRAME_LIBRARY;
    case SYMBOL_MODULE_KERNEL:
        return SONDE_FRAME_KERNEL;
    case SYMBOL_MODULE_NONE:
        break;
    }
    return module && symbol_module_is_memory(module) ? SONDE_FRAME_JIT : SONDE_FRAME_UNKNOWN;
}

static enum sonde_frame_kind kind_of(const struct report_frame *frame) {
    if (frame->text)
        return SONDE_FRAME_NOTE;
    const struct symbol_module *module = frame->mapping ? mapping_module(frame->mapping) : NULL;
    bool memory = frame->mapping && !module && frame->mapping->inode == 0; /* not opened yet */
    return memory ? SONDE_FRAME_JIT : report_kind(module);
}

static sonde_err add_line(struct sonde_profile *profile, const struct symbol_frame *from,
                          struct sonde_line *line) {
    struct sonde_function function = {0};
    sonde_err err = intern(profile, from->name, &function.name);
    if (!err)
        err = intern(profile, from->system_name, &function.system_name);
    if (!err)
        err = intern(profile, from->file, &function.filename);
    line->line = from->line;
    return err ? err : sonde_profile_add_function(profile, &function, &line->function);
}

/* The name of a frame that is not found by its address; NULL = it may be. Where the kernel hides
 * its names, all of its frames have one. */
static const char *fixed_name(const struct locating *locating, const struct report_frame *frame) {
    bool is_kernel = frame->mapping && frame->mapping->is_kernel;
    if (is_kernel && locating->queries && answer_of(locating, frame)->frame_count == 0)
        return "[kernel]";
    return frame->text;
}

static sonde_err add_location(struct locating *locating, struct report_frame *frame) {
    const struct symbol_answer *answer = answer_of(locating, frame);
    const struct located_mapping *mapping = located(locating, frame->mapping);
    struct symbol_answer note = {.place = fixed_name(locating, frame)};
    struct symbol_frame unnamed;
    const struct symbol_frame *names;
    uint32_t count = symbol_answer_frames(note.place ? &note : answer, &unnamed, &names);
    count = count < MAX_LINES ? count : MAX_LINES;
    struct sonde_line lines[MAX_LINES];
    for (uint32_t i = 0; i < count; i++) {
        sonde_err err = add_line(locating->profile, &names[i], &lines[i]);
        if (err)
            return err;
    }
    struct sonde_location location = {
        .mapping = mapping ? mapping->id : 0,
        .address = frame->text ? 0 : shown(frame->mapping, address_of(frame)),
        .line_count = count,
        .is_folded = answer->is_folded,
        .kind = kind_of(frame),
        .lines = lines,
    };
    return sonde_profile_add_location(locating->profile, &location, &frame->location);
}

sonde_err report_frames_locate(struct report_frames *frames, struct symbol_store *symbols,
                               struct sonde_profile *profile) {
    struct locating locating = {.frames = frames, .profile = profile};
    sonde_err err = resolve(&locating, symbols);
    if (!err)
        err = add_mappings(&locating);
    for (uint32_t i = 0; i < frames->count && !err; i++)
        err = add_location(&locating, &frames->items[i]);
    free(locating.queries);
    free(locating.answers);
    free(locating.mappings);
    sonde_arena_finish(&locating.arena);
    return err;
}
