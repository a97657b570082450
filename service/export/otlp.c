/* SPDX-License-Identifier: Apache-2.0
 *
 * OTLP profiles. All tables of the dictionary but three are those of the record's profile, with the
 * same numbers: its strings count from 0, which is "", and its mappings, functions and locations
 * from 1, because 0 is "none" on both sides. Strings that OTLP adds follow the profile's. Stacks
 * and attributes are tables of OTLP's own.
 *
 * A profile of OTLP has one type of value. Nanoseconds and bytes are sent, which are weighted; the
 * numbers of samples and objects are not, because receivers multiply counts by the period. */
#include "api/settings/options.h"
#include "service/export/otlp_state.h"

#include <string.h>
#include <sys/random.h>

/* ---- Code ---- */

static void fill_mappings(struct otlp *otlp) {
    size_t count = sonde_profile_mapping_count(otlp->profile);
    Mapping **table = otlp_get_table(otlp, count + 1, sizeof **table);
    int32_t *indices = otlp_get(otlp, (count + 1) * sizeof *indices);
    int32_t key = otlp_add_string(otlp, "process.executable.build_id.gnu");
    for (size_t i = 0; i <= count && !otlp->failed; i++) {
        *table[i] = (Mapping)INIT(MAPPING);
        const struct sonde_mapping *mapping =
            i ? sonde_profile_mapping(otlp->profile, (uint32_t)i) : NULL;
        if (!mapping)
            continue;
        table[i]->memory_start = mapping->start;
        table[i]->memory_limit = mapping->limit;
        table[i]->file_offset = mapping->offset;
        table[i]->filename_strindex = (int32_t)mapping->filename;
        if (!mapping->build_id)
            continue;
        indices[i] =
            otlp_add_attribute(otlp, key, sonde_profile_text(otlp->profile, mapping->build_id), 0);
        table[i]->attribute_indices = &indices[i];
        table[i]->n_attribute_indices = 1;
    }
    otlp->dictionary.mapping_table = table;
    otlp->dictionary.n_mapping_table = otlp->failed ? 0 : count + 1;
}

static void fill_functions(struct otlp *otlp) {
    size_t count = sonde_profile_function_count(otlp->profile);
    Function **table = otlp_get_table(otlp, count + 1, sizeof **table);
    for (size_t i = 0; i <= count && !otlp->failed; i++) {
        *table[i] = (Function)INIT(FUNCTION);
        const struct sonde_function *function =
            i ? sonde_profile_function(otlp->profile, (uint32_t)i) : NULL;
        if (!function)
            continue;
        table[i]->name_strindex = (int32_t)function->name;
        table[i]->system_name_strindex = (int32_t)function->system_name;
        table[i]->filename_strindex = (int32_t)function->filename;
        table[i]->start_line = function->start_line;
    }
    otlp->dictionary.function_table = table;
    otlp->dictionary.n_function_table = otlp->failed ? 0 : count + 1;
}

static void fill_lines(struct otlp *otlp, Location *location, const struct sonde_location *from) {
    location->lines = otlp_get_table(otlp, from->line_count, sizeof(Line));
    for (uint32_t i = 0; i < from->line_count && !otlp->failed; i++) {
        *location->lines[i] = (Line)INIT(LINE);
        location->lines[i]->function_index = (int32_t)from->lines[i].function;
        location->lines[i]->line = from->lines[i].line;
    }
    location->n_lines = otlp->failed ? 0 : from->line_count;
}

/* "profile.frame.type" is OpenTelemetry's. */
static int32_t frame_type(struct otlp *otlp, enum sonde_frame_kind kind) {
    bool is_native = kind == SONDE_FRAME_APPLICATION || kind == SONDE_FRAME_LIBRARY;
    if (!is_native && kind != SONDE_FRAME_KERNEL)
        return 0;
    return otlp_add_attribute(otlp, otlp_add_string(otlp, "profile.frame.type"),
                              is_native ? "native" : "kernel", 0);
}

static void fill_locations(struct otlp *otlp) {
    size_t count = sonde_profile_location_count(otlp->profile);
    Location **table = otlp_get_table(otlp, count + 1, sizeof **table);
    int32_t *indices = otlp_get(otlp, (SONDE_FRAME_NOTE + 1) * sizeof *indices);
    for (int kind = 0; kind <= SONDE_FRAME_NOTE && !otlp->failed; kind++)
        indices[kind] = frame_type(otlp, (enum sonde_frame_kind)kind);
    for (size_t i = 0; i <= count && !otlp->failed; i++) {
        *table[i] = (Location)INIT(LOCATION);
        const struct sonde_location *location =
            i ? sonde_profile_location(otlp->profile, (uint32_t)i) : NULL;
        if (!location)
            continue;
        table[i]->mapping_index = (int32_t)location->mapping;
        table[i]->address = location->address;
        table[i]->attribute_indices = &indices[location->kind];
        table[i]->n_attribute_indices = indices[location->kind] != 0;
        fill_lines(otlp, table[i], location);
    }
    otlp->dictionary.location_table = table;
    otlp->dictionary.n_location_table = otlp->failed ? 0 : count + 1;
}

/* ---- Samples ---- */

/* Samples of several threads may share a stack. */
static int32_t add_stack(struct otlp *otlp, const struct sonde_sample *sample, uint32_t number) {
    Dictionary *dictionary = &otlp->dictionary;
    size_t bytes = sample->location_count * sizeof *sample->locations;
    uint32_t hash = hash_index_data(&otlp->stacks, sample->locations, bytes), found;
    struct hash_probe probe = hash_probe(hash);
    while ((found = hash_index_next(&otlp->stacks, &probe)) != HASH_INDEX_NONE) {
        struct sonde_sample other = sonde_profile_sample(otlp->profile, otlp->sample_stacks[found]);
        if (other.location_count == sample->location_count &&
            memcmp(other.locations, sample->locations, bytes) == 0)
            return (int32_t)found;
    }
    uint32_t index = (uint32_t)dictionary->n_stack_table++;
    Stack *stack = dictionary->stack_table[index];
    *stack = (Stack)INIT(STACK);
    stack->location_indices = (int32_t *)(uintptr_t)sample->locations;
    stack->n_location_indices = sample->location_count;
    otlp->sample_stacks[index] = number;
    otlp->failed |= !hash_index_add(&otlp->stacks, hash, index);
    return (int32_t)index;
}

/* Labels with a meaning of their own, and OpenTelemetry's names for those that are attributes. */
static const struct known_label {
    const char *label, *attribute;
    bool is_trace, is_span; /* parts of the sample's link */
} known_labels[] = {
    {"thread", "thread.name", false, false},
    {"tid", "thread.id", false, false},
    {"trace_id", NULL, true, false},
    {"span_id", NULL, false, true},
};

static const struct known_label *find_label(const char *name) {
    for (size_t i = 0; i < sizeof known_labels / sizeof known_labels[0]; i++)
        if (strcmp(name, known_labels[i].label) == 0)
            return &known_labels[i];
    return NULL;
}

static void fill_labels(struct otlp *otlp, Sample *sample, const struct sonde_sample *from) {
    const char *trace = "", *span = "";
    sample->attribute_indices =
        otlp_get(otlp, (from->label_count + 1) * sizeof *sample->attribute_indices);
    for (uint32_t i = 0; i < from->label_count && !otlp->failed; i++) {
        const struct sonde_label *label = &from->labels[i];
        const char *text = label->str ? sonde_profile_text(otlp->profile, label->str) : NULL;
        const struct known_label *known = find_label(sonde_profile_text(otlp->profile, label->key));
        trace = known && known->is_trace && text ? text : trace;
        span = known && known->is_span && text ? text : span;
        if (known && !known->attribute)
            continue;
        int32_t key = known ? otlp_add_string(otlp, known->attribute) : (int32_t)label->key;
        sample->attribute_indices[sample->n_attribute_indices++] =
            otlp_add_attribute(otlp, key, text, label->num);
    }
    sample->link_index = otlp_add_link(otlp, trace, span);
}

static void fill_samples(struct otlp *otlp, Profile *profile, size_t type) {
    size_t count = sonde_profile_sample_count(otlp->profile);
    Sample **table = otlp_get_table(otlp, count, sizeof **table);
    int64_t *values = otlp_get(otlp, count * sizeof *values);
    profile->samples = table;
    for (size_t i = 0; i < count && !otlp->failed; i++) {
        const struct sonde_sample from = sonde_profile_sample(otlp->profile, i);
        if (from.values[type] <= 0)
            continue;
        Sample *sample = table[profile->n_samples];
        *sample = (Sample)INIT(SAMPLE);
        values[i] = from.values[type];
        sample->values = &values[i];
        sample->n_values = 1;
        sample->stack_index = add_stack(otlp, &from, (uint32_t)i);
        fill_labels(otlp, sample, &from);
        profile->n_samples++;
    }
}

/* ---- The message ---- */

static ValueType *value_type(struct otlp *otlp, struct sonde_value_type from) {
    ValueType *type = otlp_get(otlp, sizeof *type);
    if (!type)
        return NULL;
    *type = (ValueType)INIT(VALUE_TYPE);
    type->type_strindex = otlp_add_string(otlp, from.type);
    type->unit_strindex = otlp_add_string(otlp, from.unit);
    return type;
}

static void add_profile(struct otlp *otlp, PROFILES(ScopeProfiles) * scope, size_t type) {
    const struct sonde_profile_info *info = sonde_profile_info(otlp->profile);
    Profile *profile = otlp_get(otlp, sizeof *profile);
    if (!profile)
        return;
    *profile = (Profile)INIT(PROFILE);
    profile->sample_type = value_type(otlp, sonde_profile_type(otlp->profile, type));
    profile->time_unix_nano = (uint64_t)otlp->record->begin_unix_ns;
    profile->duration_nano = (uint64_t)(otlp->record->end_unix_ns - otlp->record->begin_unix_ns);
    profile->period_type = value_type(otlp, info->period_type);
    profile->period = info->period;
    profile->profile_id.data = otlp_get(otlp, 16);
    profile->profile_id.len = 16;
    if (otlp->failed || getrandom(profile->profile_id.data, 16, 0) != 16)
        return;
    fill_samples(otlp, profile, type);
    if (profile->n_samples)
        scope->profiles[scope->n_profiles++] = profile;
}

static void add_profiles(struct otlp *otlp, PROFILES(ScopeProfiles) * scope) {
    size_t count = sonde_profile_type_count(otlp->profile);
    scope->profiles = otlp_get(otlp, count * sizeof *scope->profiles);
    for (size_t type = 0; type < count && !otlp->failed; type++)
        if (strcmp(sonde_profile_type(otlp->profile, type).unit, "count") != 0)
            add_profile(otlp, scope, type);
}

static void pack(struct otlp *otlp, PROFILES(ResourceProfiles) * profiles, struct sonde_buf *out) {
    Request request = COLLECTOR_INIT(EXPORT_PROFILES_SERVICE_REQUEST);
    request.resource_profiles = &profiles;
    request.n_resource_profiles = 1;
    request.dictionary = &otlp->dictionary;
    size_t len = protobuf_c_message_get_packed_size(&request.base);
    char *bytes = sonde_buf_extend(out, len);
    otlp->failed = !bytes;
    if (bytes)
        protobuf_c_message_pack(&request.base, (uint8_t *)bytes);
}

static sonde_err encode(const struct record *record, const char *host, struct sonde_buf *out) {
    struct otlp otlp = {
        .record = record, .profile = record->profile, .dictionary = INIT(PROFILES_DICTIONARY)};
    PROFILES(ResourceProfiles) profiles = INIT(RESOURCE_PROFILES);
    PROFILES(ScopeProfiles) scope = INIT(SCOPE_PROFILES), *scopes = &scope;
    PROFILES(InstrumentationScope) profiler = INIT(INSTRUMENTATION_SCOPE);
    PROFILES(Resource) resource = INIT(RESOURCE);
    hash_index_init(&otlp.stacks);
    hash_index_init(&otlp.attributes);
    hash_index_init(&otlp.links);
    profiler.name = (char *)"sonde";
    profiler.version = (char *)SONDE_VERSION;
    profiles.resource = &resource;
    profiles.scope_profiles = &scopes;
    profiles.n_scope_profiles = 1;
    scope.scope = &profiler;
    otlp_fill_strings(&otlp);
    otlp_begin_tables(&otlp);
    fill_mappings(&otlp);
    fill_functions(&otlp);
    fill_locations(&otlp);
    otlp_fill_resource(&otlp, &resource, host);
    if (!otlp.failed)
        add_profiles(&otlp, &scope);
    if (!otlp.failed)
        pack(&otlp, &profiles, out);
    hash_index_finish(&otlp.stacks);
    hash_index_finish(&otlp.attributes);
    hash_index_finish(&otlp.links);
    sonde_arena_finish(&otlp.arena);
    return otlp.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

const struct export_protocol otlp_protocol = {
    .name = "otlp",
    .content_type = "application/x-protobuf",
    .max_bytes = PROTOCOL_MAX_BYTES,
    .max_samples = SIZE_MAX,
    .encode = encode,
};
