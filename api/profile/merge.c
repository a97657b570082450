/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging: number by number the tables of `from` are added to `into`, and four arrays remember
 * where each went. */
#include "api/profile/internal.h"

#include <stdlib.h>
#include <string.h>

struct merge {
    struct sonde_profile *into;
    const struct sonde_profile *from;
    uint32_t *strings, *mappings, *functions, *locations; /* old id → new id */
};

static sonde_err merge_strings(struct merge *merge) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < merge->from->strings.count && !err; i++) {
        const struct profile_text *text = profile_table_item(&merge->from->strings, i);
        err = sonde_profile_string(merge->into, text->data, text->len, &merge->strings[i]);
    }
    return err;
}

static sonde_err merge_mappings(struct merge *merge) {
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= merge->from->mappings.count && !err; id++) {
        struct sonde_mapping mapping = *sonde_profile_mapping(merge->from, id);
        mapping.filename = merge->strings[mapping.filename];
        mapping.build_id = merge->strings[mapping.build_id];
        err = sonde_profile_add_mapping(merge->into, &mapping, &merge->mappings[id]);
    }
    return err;
}

static sonde_err merge_functions(struct merge *merge) {
    sonde_err err = SONDE_OK;
    for (uint32_t id = 1; id <= merge->from->functions.count && !err; id++) {
        struct sonde_function function = *sonde_profile_function(merge->from, id);
        function.name = merge->strings[function.name];
        function.system_name = merge->strings[function.system_name];
        function.filename = merge->strings[function.filename];
        err = sonde_profile_add_function(merge->into, &function, &merge->functions[id]);
    }
    return err;
}

static sonde_err merge_location(struct merge *merge, uint32_t id) {
    struct sonde_location location = *sonde_profile_location(merge->from, id);
    struct sonde_line *lines = calloc(location.line_count + 1, sizeof *lines);
    if (!lines)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < location.line_count; i++)
        lines[i] = (struct sonde_line){merge->functions[location.lines[i].function],
                                       location.lines[i].line};
    location.lines = lines;
    location.mapping = merge->mappings[location.mapping];
    sonde_err err = sonde_profile_add_location(merge->into, &location, &merge->locations[id]);
    free(lines);
    return err;
}

static sonde_err merge_sample(struct merge *merge, size_t index, int64_t scale) {
    struct sonde_sample sample = sonde_profile_sample(merge->from, index);
    uint32_t locations[SONDE_PROFILE_MAX_DEPTH];
    struct sonde_label labels[SONDE_PROFILE_MAX_LABELS];
    int64_t values[SONDE_PROFILE_MAX_TYPES];
    for (uint32_t i = 0; i < sample.location_count; i++)
        locations[i] = merge->locations[sample.locations[i]];
    for (uint32_t i = 0; i < sample.label_count; i++)
        labels[i] = (struct sonde_label){merge->strings[sample.labels[i].key],
                                         merge->strings[sample.labels[i].str], sample.labels[i].num,
                                         merge->strings[sample.labels[i].num_unit]};
    for (size_t i = 0; i < merge->from->type_count; i++)
        values[i] = profile_multiply(sample.values[i], scale);
    sample.locations = locations;
    sample.labels = labels;
    sample.values = values;
    return sonde_profile_add_sample(merge->into, &sample);
}

static sonde_err merge_all(struct merge *merge, int64_t scale) {
    const struct sonde_profile *from = merge->from;
    merge->strings = calloc(from->strings.count + 1, sizeof(uint32_t));
    merge->mappings = calloc(from->mappings.count + 1, sizeof(uint32_t));
    merge->functions = calloc(from->functions.count + 1, sizeof(uint32_t));
    merge->locations = calloc(from->locations.count + 1, sizeof(uint32_t));
    if (!merge->strings || !merge->mappings || !merge->functions || !merge->locations)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = merge_strings(merge);
    if (!err)
        err = merge_mappings(merge);
    if (!err)
        err = merge_functions(merge);
    for (uint32_t id = 1; id <= from->locations.count && !err; id++)
        err = merge_location(merge, id);
    for (size_t i = 0; i < from->samples.count && !err; i++)
        err = merge_sample(merge, i, scale);
    return err;
}

static bool same_types(const struct sonde_profile *a, const struct sonde_profile *b) {
    if (a->type_count != b->type_count)
        return false;
    for (size_t i = 0; i < a->type_count; i++) {
        struct sonde_value_type x = sonde_profile_type(a, i), y = sonde_profile_type(b, i);
        if (strcmp(x.type, y.type) != 0 || strcmp(x.unit, y.unit) != 0)
            return false;
    }
    return true;
}

sonde_err sonde_profile_merge(struct sonde_profile *into, const struct sonde_profile *from,
                              int64_t scale, struct sonde_diag *diag) {
    if (into == from)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "a profile cannot be merged into itself");
    if (!same_types(into, from))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the profiles measure different things: \"%.60s\" and \"%.60s\"",
                          sonde_profile_type(into, 0).type, sonde_profile_type(from, 0).type);
    struct merge merge = {.into = into, .from = from};
    sonde_err err = merge_all(&merge, scale);
    if (!err && scale > 0)
        into->info.duration_ns = profile_add(into->info.duration_ns, from->info.duration_ns);
    free(merge.strings);
    free(merge.mappings);
    free(merge.functions);
    free(merge.locations);
    if (err)
        return sonde_fail(diag, err, "%s", sonde_diag_text(NULL, err));
    return SONDE_OK;
}
