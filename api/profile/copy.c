/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/copy.h"

#include <stdlib.h>
#include <string.h>

static sonde_err copy_string(struct profile_copy *copy, uint32_t id, uint32_t *new_id) {
    uint32_t *known = &copy->strings[id];
    if (!*known) {
        const struct profile_text *text = profile_table_item(&copy->from->strings, id);
        sonde_err err = sonde_profile_string(copy->into, text->data, text->len, new_id);
        if (err)
            return err;
        *known = *new_id + 1;
    }
    *new_id = *known - 1;
    return SONDE_OK;
}

sonde_err profile_copy_mapping(struct profile_copy *copy, uint32_t id) {
    struct sonde_mapping mapping = *sonde_profile_mapping(copy->from, id);
    uint32_t new_id;
    sonde_err err = copy_string(copy, mapping.filename, &mapping.filename);
    if (!err)
        err = copy_string(copy, mapping.build_id, &mapping.build_id);
    if (!err)
        err = sonde_profile_add_mapping(copy->into, &mapping, &new_id);
    if (!err)
        copy->mappings[id] = new_id;
    return err;
}

static sonde_err copy_function(struct profile_copy *copy, uint32_t id, uint32_t *new_id) {
    struct sonde_function function = *sonde_profile_function(copy->from, id);
    if (copy->functions[id]) {
        *new_id = copy->functions[id];
        return SONDE_OK;
    }
    sonde_err err = copy_string(copy, function.name, &function.name);
    if (!err)
        err = copy_string(copy, function.system_name, &function.system_name);
    if (!err)
        err = copy_string(copy, function.filename, &function.filename);
    if (!err)
        err = sonde_profile_add_function(copy->into, &function, new_id);
    if (!err)
        copy->functions[id] = *new_id;
    return err;
}

/* The location without its first `skip` lines. */
static sonde_err add_location(struct profile_copy *copy, struct sonde_location location,
                              uint32_t skip, uint32_t *new_id) {
    const struct sonde_line *from = location.lines + skip;
    location.line_count -= skip;
    struct sonde_line *lines = calloc(location.line_count + 1, sizeof *lines);
    sonde_err err = lines ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < location.line_count && !err; i++) {
        lines[i].line = from[i].line;
        err = copy_function(copy, from[i].function, &lines[i].function);
    }
    location.lines = lines;
    location.mapping = copy->mappings[location.mapping];
    if (!err)
        err = sonde_profile_add_location(copy->into, &location, new_id);
    free(lines);
    return err;
}

sonde_err profile_copy_location_as(struct profile_copy *copy, uint32_t id,
                                   const struct sonde_location *location) {
    return add_location(copy, *location, 0, &copy->locations[id]);
}

sonde_err profile_copy_location(struct profile_copy *copy, uint32_t id, uint32_t *new_id) {
    sonde_err err = SONDE_OK;
    if (!copy->locations[id])
        err = profile_copy_location_as(copy, id, sonde_profile_location(copy->from, id));
    *new_id = copy->locations[id];
    return err;
}

static sonde_err copy_labels(struct profile_copy *copy, const struct sonde_sample *sample,
                             struct sonde_label *labels) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < sample->label_count && !err; i++) {
        labels[i] = sample->labels[i];
        err = copy_string(copy, labels[i].key, &labels[i].key);
        if (!err)
            err = copy_string(copy, labels[i].str, &labels[i].str);
        if (!err)
            err = copy_string(copy, labels[i].num_unit, &labels[i].num_unit);
    }
    return err;
}

sonde_err profile_copy_sample(struct profile_copy *copy, size_t index, uint32_t skip,
                              uint32_t lines, struct profile_copied_sample *out) {
    struct sonde_sample sample = sonde_profile_sample(copy->from, index);
    sonde_err err = copy_labels(copy, &sample, out->labels);
    if (!err && lines > 0)
        err = add_location(copy, *sonde_profile_location(copy->from, sample.locations[skip]), lines,
                           &out->locations[0]);
    for (uint32_t i = skip + (lines > 0); i < sample.location_count && !err; i++)
        err = profile_copy_location(copy, sample.locations[i], &out->locations[i - skip]);
    memcpy(out->values, sample.values, copy->from->type_count * sizeof *out->values);
    out->sample = (struct sonde_sample){.locations = out->locations,
                                        .location_count = sample.location_count - skip,
                                        .label_count = sample.label_count,
                                        .values = out->values,
                                        .sampled = sample.sampled,
                                        .labels = out->labels};
    return err;
}

sonde_err profile_copy_begin(struct profile_copy *copy, struct sonde_profile *into,
                             const struct sonde_profile *from) {
    *copy = (struct profile_copy){.into = into, .from = from};
    copy->strings = calloc(from->strings.count + 1, sizeof(uint32_t));
    copy->mappings = calloc(from->mappings.count + 1, sizeof(uint32_t));
    copy->functions = calloc(from->functions.count + 1, sizeof(uint32_t));
    copy->locations = calloc(from->locations.count + 1, sizeof(uint32_t));
    return copy->strings && copy->mappings && copy->functions && copy->locations
               ? SONDE_OK
               : SONDE_OUT_OF_MEMORY;
}

sonde_err profile_copy_init(struct profile_copy *copy, struct sonde_profile *into,
                            const struct sonde_profile *from) {
    sonde_err err = profile_copy_begin(copy, into, from);
    for (uint32_t id = 1; id <= from->mappings.count && !err; id++)
        err = profile_copy_mapping(copy, id);
    return err;
}

void profile_copy_finish(struct profile_copy *copy) {
    free(copy->strings);
    free(copy->mappings);
    free(copy->functions);
    free(copy->locations);
}

struct sonde_profile *profile_copy_empty(const struct sonde_profile *from) {
    struct sonde_value_type types[SONDE_PROFILE_MAX_TYPES];
    for (size_t i = 0; i < from->type_count; i++)
        types[i] = sonde_profile_type(from, i);
    struct sonde_profile *into = sonde_profile_create(types, from->type_count, from->limit_bytes);
    if (!into)
        return NULL;
    sonde_profile_set_info(into, &from->info);
    for (size_t i = 0; i < from->comments.count; i++)
        if (sonde_profile_add_comment(into, sonde_profile_comment(from, i))) {
            sonde_profile_destroy(into);
            return NULL;
        }
    return into;
}

bool profile_same_types(const struct sonde_profile *a, const struct sonde_profile *b) {
    if (a->type_count != b->type_count)
        return false;
    for (size_t i = 0; i < a->type_count; i++) {
        struct sonde_value_type x = sonde_profile_type(a, i), y = sonde_profile_type(b, i);
        if (strcmp(x.type, y.type) != 0 || strcmp(x.unit, y.unit) != 0)
            return false;
    }
    return true;
}

static sonde_err add_wanted(struct sonde_profile *into, const struct sonde_profile *from,
                            const bool *is_wanted) {
    struct profile_copy copy;
    struct profile_copied_sample out;
    sonde_err err = profile_copy_init(&copy, into, from);
    for (size_t i = 0; !err && i < sonde_profile_sample_count(from); i++) {
        if (!is_wanted[i])
            continue;
        err = profile_copy_sample(&copy, i, 0, 0, &out);
        if (!err)
            err = sonde_profile_add_sample(into, &out.sample);
    }
    profile_copy_finish(&copy);
    return err;
}

sonde_err profile_copy_wanted(const struct sonde_profile *from, const bool *is_wanted,
                              const char *comment, struct sonde_profile **copy) {
    struct sonde_profile *into = profile_copy_empty(from);
    sonde_err err = into ? add_wanted(into, from, is_wanted) : SONDE_OUT_OF_MEMORY;
    if (!err && comment)
        err = sonde_profile_add_comment(into, comment);
    if (err) {
        sonde_profile_destroy(into);
        into = NULL;
    }
    *copy = into;
    return err;
}
