/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/host/dictionary.h"

#include <stdlib.h>
#include <string.h>

void dictionary_finish(struct dictionary *dictionary) {
    sonde_arena_finish(&dictionary->arena);
    free(dictionary->texts);
    free(dictionary->processes);
    free(dictionary->frames);
    free(dictionary->stacks);
    *dictionary = (struct dictionary){.text_capacity = 0};
}

/* Makes items[number] exist; new items are zero. */
static sonde_err grow(void *items, uint32_t *capacity, size_t item_size, uint32_t number,
                      const char *what, struct sonde_diag *diag) {
    void **array = items;
    uint32_t wanted = *capacity ? *capacity : 64;
    if (number < *capacity)
        return SONDE_OK;
    if (number >= DICTIONARY_MAX_NUMBER)
        return sonde_fail(diag, SONDE_PROTOCOL, "the host sent %s number %u; at most %u", what,
                          number, DICTIONARY_MAX_NUMBER - 1);
    while (wanted <= number)
        wanted *= 2;
    void *grown = realloc(*array, wanted * item_size);
    if (!grown)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the host's dictionary");
    memset((char *)grown + *capacity * item_size, 0, (wanted - *capacity) * item_size);
    *array = grown;
    *capacity = wanted;
    return SONDE_OK;
}

static sonde_err check_bytes(const struct dictionary *dictionary, struct sonde_diag *diag) {
    if (dictionary->arena.total <= DICTIONARY_MAX_BYTES)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_PROTOCOL, "the host's dictionary exceeds %u MiB",
                      DICTIONARY_MAX_BYTES >> 20);
}

static const char *dup(struct dictionary *dictionary, const char *text) {
    return sonde_arena_dup(&dictionary->arena, text, strlen(text));
}

sonde_err dictionary_add_text(struct dictionary *dictionary, const Sonde__V1__CollectText *text,
                              struct sonde_diag *diag) {
    sonde_err err = grow(&dictionary->texts, &dictionary->text_capacity, sizeof *dictionary->texts,
                         text->number, "text", diag);
    if (!err)
        err = check_bytes(dictionary, diag);
    if (err)
        return err;
    dictionary->texts[text->number] = dup(dictionary, text->text);
    return dictionary->texts[text->number]
               ? SONDE_OK
               : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the host's dictionary");
}

static struct dictionary_process *copy_process(struct dictionary *dictionary,
                                               const Sonde__V1__CollectProcess *from) {
    struct dictionary_process *process = sonde_arena_alloc(&dictionary->arena, sizeof *process);
    if (!process)
        return NULL;
    process->service = dup(dictionary, from->service);
    process->instance = dup(dictionary, from->instance);
    process->pid = from->pid;
    process->start_unix_ns = from->start_unix_ns;
    process->labels =
        sonde_arena_alloc(&dictionary->arena, (from->n_labels + 1) * sizeof *process->labels);
    if (!process->service || !process->instance || !process->labels)
        return NULL;
    for (size_t i = 0; i < from->n_labels; i++) {
        struct dictionary_label *label = &process->labels[process->label_count++];
        label->name = dup(dictionary, from->labels[i]->name);
        label->value = dup(dictionary, from->labels[i]->value);
        if (!label->name || !label->value)
            return NULL;
    }
    return process;
}

sonde_err dictionary_add_process(struct dictionary *dictionary,
                                 const Sonde__V1__CollectProcess *from, struct sonde_diag *diag) {
    sonde_err err = grow(&dictionary->processes, &dictionary->process_capacity,
                         sizeof *dictionary->processes, from->number, "process", diag);
    if (!err)
        err = check_bytes(dictionary, diag);
    if (err)
        return err;
    struct dictionary_process *process = copy_process(dictionary, from);
    if (!process)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the host's dictionary");
    dictionary->processes[from->number] = process;
    return SONDE_OK;
}

sonde_err dictionary_add_frame(struct dictionary *dictionary, uint32_t number, uint64_t id,
                               struct sonde_diag *diag) {
    sonde_err err = grow(&dictionary->frames, &dictionary->frame_capacity,
                         sizeof *dictionary->frames, number, "frame", diag);
    if (!err)
        dictionary->frames[number] = id;
    return err;
}

sonde_err dictionary_add_stack(struct dictionary *dictionary, uint32_t number, uint64_t id,
                               struct sonde_diag *diag) {
    sonde_err err = grow(&dictionary->stacks, &dictionary->stack_capacity,
                         sizeof *dictionary->stacks, number, "stack", diag);
    if (!err)
        dictionary->stacks[number] = id;
    return err;
}

const char *dictionary_text(const struct dictionary *dictionary, uint32_t number) {
    const char *text = number < dictionary->text_capacity ? dictionary->texts[number] : NULL;
    return !text && number == 0 ? "" : text;
}

const struct dictionary_process *dictionary_process(const struct dictionary *dictionary,
                                                    uint32_t number) {
    return number < dictionary->process_capacity ? dictionary->processes[number] : NULL;
}

uint64_t dictionary_frame(const struct dictionary *dictionary, uint32_t number) {
    return number < dictionary->frame_capacity ? dictionary->frames[number] : 0;
}

uint64_t dictionary_stack(const struct dictionary *dictionary, uint32_t number) {
    return number < dictionary->stack_capacity ? dictionary->stacks[number] : 0;
}
