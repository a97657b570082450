/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report.h"

#include "api/profile/select/contentions.h"
#include "api/profile/timeline.h"
#include "service/engine/report/report_locks.h"
#include "service/engine/report/report_spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever measured it, a stack fits: HOST_MAX_DEPTH frames of the process, HOST_MAX_KERNEL of the
 * kernel, notes, and the process itself. */
#define MAX_FRAMES SONDE_PROFILE_MAX_DEPTH
#define MAX_LABELS 8

/* String ids of the label keys. */
struct label_keys {
    uint32_t thread, tid, pid, label, request, trace_id, span_id;
};

struct building {
    const struct report_input *input;
    struct sonde_profile *profile;
    struct report_frames frames;
    uint32_t *frame_of_node[REPORT_MAX_PARTS]; /* number of the frame + 1, 0 = not used */
    uint32_t *sample_of[REPORT_MAX_PARTS];     /* of entry: number of the sample */
    struct label_keys keys;
    struct report_spans spans[REPORT_MAX_PARTS];
    struct report_locks locks;
};

void report_input_finish(struct report_input *input) {
    for (uint32_t i = 0; i < input->part_count; i++) {
        stacks_release(input->parts[i].stacks);
        counts_finish(&input->parts[i].counts);
    }
    input->part_count = 0;
    time_bins_finish(&input->bins);
}

struct sonde_profile *report_empty(enum sonde_event_id event) {
    const struct sonde_value_type types[] = {{"samples", "count"}, sonde_events[event].amount.type};
    return sonde_profile_create(types, 2, REPORT_MAX_BYTES);
}

static struct sonde_profile *create_profile(const struct report_input *input) {
    return input->counts_waits ? sonde_profile_create(sonde_contention_types, 2, REPORT_MAX_BYTES)
                               : report_empty(input->metadata.event);
}

/* Adds the frames of one stack; stops at a node that an earlier stack has added. */
static sonde_err mark_stack(struct building *building, uint32_t part, uint32_t id) {
    const struct stacks *stacks = building->input->parts[part].stacks;
    uint32_t *frame_of_node = building->frame_of_node[part];
    while (id != 0 && frame_of_node[id] == 0) {
        const struct stack_node *node = stacks_node(stacks, id);
        uint32_t frame;
        sonde_err err = report_frames_add(&building->frames, stacks, node, &frame);
        if (err)
            return err;
        frame_of_node[id] = frame + 1;
        id = node->parent;
    }
    return SONDE_OK;
}

static sonde_err collect_frames(struct building *building, uint32_t part) {
    const struct counts *counts = &building->input->parts[part].counts;
    uint32_t nodes = 1;
    for (uint32_t i = 0; i < counts->used; i++)
        if (counts->entries[i].key.stack >= nodes)
            nodes = counts->entries[i].key.stack + 1;
    building->frame_of_node[part] =
        calloc(nodes, sizeof(uint32_t)); /* a parent's number is below its children's */
    if (!building->frame_of_node[part])
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = SONDE_OK;
    for (uint32_t i = 0; i < counts->used && !err; i++)
        err = mark_stack(building, part, counts->entries[i].key.stack);
    return err;
}

static sonde_err intern(struct building *building, const char *text, uint32_t *id) {
    return sonde_profile_string(building->profile, text, strlen(text), id);
}

static sonde_err intern_keys(struct building *building) {
    struct label_keys *keys = &building->keys;
    sonde_err err = intern(building, "thread", &keys->thread);
    if (!err)
        err = intern(building, "tid", &keys->tid);
    if (!err)
        err = intern(building, "pid", &keys->pid);
    if (!err)
        err = intern(building, "label", &keys->label);
    if (!err)
        err = intern(building, "trace_id", &keys->trace_id);
    if (!err)
        err = intern(building, "span_id", &keys->span_id);
    return err ? err : intern(building, "request", &keys->request);
}

static sonde_err add_hex(struct building *building, const uint8_t *id, size_t len, uint32_t key,
                         struct sonde_label *label) {
    char text[33];
    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    label->key = key;
    return intern(building, text, &label->str);
}

/* A span, or the number that the program gave. */
static sonde_err add_request(struct building *building, uint32_t part, uint64_t request,
                             struct sonde_label *labels, uint32_t *count) {
    const struct stack_span *span = report_spans_find(&building->spans[part], request);
    if (!span) {
        labels[(*count)++] =
            (struct sonde_label){.key = building->keys.request, .num = (int64_t)request};
        return SONDE_OK;
    }
    sonde_err err = add_hex(building, span->trace_id, sizeof span->trace_id,
                            building->keys.trace_id, &labels[(*count)++]);
    return err ? err
               : add_hex(building, span->span_id, sizeof span->span_id, building->keys.span_id,
                         &labels[(*count)++]);
}

static sonde_err add_labels(struct building *building, uint32_t part, const struct count_key *key,
                            struct sonde_label labels[MAX_LABELS], uint32_t *count) {
    const struct stacks *stacks = building->input->parts[part].stacks;
    const struct stack_thread *thread = stable_vector_at(&stacks->threads, key->thread);
    const struct stack_label *label = stable_vector_at(&stacks->labels, key->label);
    sonde_err err = SONDE_OK;
    if (thread->name[0]) {
        labels[*count].key = building->keys.thread;
        err = intern(building, thread->name, &labels[(*count)++].str);
    }
    if (thread->tid != 0)
        labels[(*count)++] = (struct sonde_label){.key = building->keys.tid, .num = thread->tid};
    if (thread->pid != 0)
        labels[(*count)++] = (struct sonde_label){.key = building->keys.pid, .num = thread->pid};
    if (label->text[0] && !err) {
        labels[*count].key = building->keys.label;
        err = intern(building, label->text, &labels[(*count)++].str);
    }
    if (key->request != 0 && !err)
        err = add_request(building, part, key->request, labels, count);
    return err ? err : report_locks_label(&building->locks, part, key, labels, count);
}

static sonde_err add_sample(struct building *building, uint32_t part,
                            const struct count_entry *entry, uint32_t *number) {
    const struct stacks *stacks = building->input->parts[part].stacks;
    const uint32_t *frame_of_node = building->frame_of_node[part];
    uint32_t locations[MAX_FRAMES], depth = 0, label_count = 0;
    for (uint32_t id = entry->key.stack; id != 0 && depth < MAX_FRAMES;
         id = stacks_node(stacks, id)->parent)
        locations[depth++] = building->frames.items[frame_of_node[id] - 1].location;
    struct sonde_label labels[MAX_LABELS] = {{0}};
    sonde_err err = add_labels(building, part, &entry->key, labels, &label_count);
    if (err)
        return err;
    int64_t count = (int64_t)entry->count;
    int64_t values[] = {count, count * (int64_t)building->input->metadata.period_ns};
    if (building->input->counts_waits || sonde_event_is_counted(building->input->metadata.event))
        values[0] = (int64_t)(entry->waits + 0.5);
    struct sonde_sample sample = {
        .locations = locations,
        .location_count = depth,
        .label_count = label_count,
        .values = values,
        .labels = labels,
    };
    return sonde_profile_add_sample_at(building->profile, &sample, number);
}

static sonde_err add_samples(struct building *building, uint32_t part) {
    const struct counts *counts = &building->input->parts[part].counts;
    uint32_t *sample_of = calloc(counts->used + 1, sizeof *sample_of);
    building->sample_of[part] = sample_of;
    sonde_err err = sample_of ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < counts->used && !err; i++)
        err = add_sample(building, part, &counts->entries[i], &sample_of[i]);
    return err;
}

static sonde_err add_shortfalls(struct building *building) {
    struct sonde_buf text = {0};
    sonde_buf_printf(&text, "symbols: %s", building->frames.shortfalls.data);
    sonde_err err = text.failed || building->frames.shortfalls.failed
                        ? SONDE_OUT_OF_MEMORY
                        : sonde_profile_add_comment(building->profile, text.data);
    sonde_buf_finish(&text);
    return err;
}

static sonde_err add_advice(struct building *building) {
    sonde_err err = building->frames.advice.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
    char comment[PROGRAM_ADVICE + sizeof "names: "];
    for (const char *at = building->frames.advice.data; at && *at && !err;) {
        size_t len = strcspn(at, "\n");
        snprintf(comment, sizeof comment, "names: %.*s", (int)len, at);
        err = sonde_profile_add_comment(building->profile, comment);
        at += len + 1;
    }
    return err;
}

static void set_info(const struct report_input *input, struct sonde_profile *profile) {
    struct sonde_profile_info info = {
        .period_type = sonde_events[input->metadata.event].amount.type,
        .period = (int64_t)input->metadata.period_ns,
        .time_unix_ns = input->metadata.start_unix_ns,
        .duration_ns = input->metadata.end_unix_ns - input->metadata.start_unix_ns,
        .default_type = 1, /* pprof shows time first */
    };
    if (input->counts_waits) {
        info.period_type = sonde_profile_type(profile, 0);
        info.period = 1;
    }
    sonde_profile_set_info(profile, &info);
}

static sonde_err build(struct building *building, struct symbol_store *symbols) {
    const struct report_input *input = building->input;
    sonde_err err = intern_keys(building);
    for (uint32_t i = 0; i < input->part_count && !err; i++)
        err = collect_frames(building, i);
    if (!err)
        err = report_frames_locate(&building->frames, input->no_symbols ? NULL : symbols,
                                   building->profile);
    for (uint32_t i = 0; i < input->part_count && !err; i++)
        err = report_spans_init(&building->spans[i], input->parts[i].stacks,
                                input->parts[i].span_count);
    building->locks = (struct report_locks){.input = input,
                                            .frames = &building->frames,
                                            .frame_of_node = building->frame_of_node,
                                            .profile = building->profile};
    if (!err)
        err = report_locks_init(&building->locks, input->no_symbols ? NULL : symbols);
    for (uint32_t i = 0; i < input->part_count && !err; i++)
        err = add_samples(building, i);
    if (!err && input->has_timeline)
        err = report_add_timeline(input, building->sample_of, building->profile);
    if (!err)
        err = report_add_comments(input, building->profile);
    if (!err && building->frames.shortfalls.len > 0)
        err = add_shortfalls(building);
    if (!err)
        err = add_advice(building);
    set_info(input, building->profile);
    return err;
}

sonde_err report_build(const struct report_input *input, struct symbol_store *symbols,
                       struct sonde_profile **profile, struct sonde_diag *diag) {
    struct building building = {.input = input, .profile = create_profile(input)};
    report_frames_init(&building.frames);
    building.frames.executable = input->executable;
    sonde_err err = building.profile ? build(&building, symbols) : SONDE_OUT_OF_MEMORY;
    report_frames_finish(&building.frames);
    for (uint32_t i = 0; i < input->part_count; i++)
        free(building.frame_of_node[i]);
    for (uint32_t i = 0; i < input->part_count; i++)
        free(building.sample_of[i]);
    for (uint32_t i = 0; i < input->part_count; i++)
        report_spans_finish(&building.spans[i]);
    report_locks_finish(&building.locks);
    if (err) {
        sonde_profile_destroy(building.profile);
        building.profile = NULL;
        err = sonde_fail(diag, err,
                         err == SONDE_TOO_LARGE
                             ? "the profile needs more than the limit of 512 MiB; capture for a "
                               "shorter time or at a lower rate"
                             : "the profile could not be built: out of memory");
    }
    *profile = building.profile;
    return err;
}

/* Merging into an empty profile keeps the samples' numbers. */
static sonde_err dup_timeline(const struct sonde_profile *from, struct sonde_profile *to) {
    struct sonde_timeline *copy = sonde_timeline_dup(sonde_profile_timeline(from));
    if (!copy)
        return SONDE_OUT_OF_MEMORY;
    sonde_profile_set_timeline(to, copy);
    return SONDE_OK;
}

sonde_err report_dup(const struct sonde_profile *from, struct sonde_profile **profile,
                     struct sonde_diag *diag) {
    struct sonde_value_type of[SONDE_PROFILE_MAX_TYPES];
    size_t type_count = sonde_profile_type_count(from);
    for (size_t i = 0; i < type_count; i++)
        of[i] = sonde_profile_type(from, i);
    struct sonde_profile *copy = sonde_profile_create(of, type_count, REPORT_MAX_BYTES);
    sonde_err err = copy ? sonde_profile_merge(copy, from, 1, diag) : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < sonde_profile_comment_count(from) && !err; i++)
        err = sonde_profile_add_comment(copy, sonde_profile_comment(from, i));
    if (!err && sonde_profile_timeline(from))
        err = dup_timeline(from, copy);
    if (err) {
        sonde_profile_destroy(copy);
        copy = NULL;
    } else {
        sonde_profile_set_info(copy, sonde_profile_info(from));
    }
    *profile = copy;
    return err;
}
