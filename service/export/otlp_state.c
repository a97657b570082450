/* SPDX-License-Identifier: Apache-2.0 */
#include "service/export/otlp_state.h"

#include <string.h>

#define EXTRA_STRINGS 64
#define TRACE_BYTES   16
#define SPAN_BYTES    8

/* ---- Memory ---- */

void *otlp_get(struct otlp *otlp, size_t size) {
    void *memory = otlp->failed ? NULL : sonde_arena_alloc(&otlp->arena, size ? size : 1);
    otlp->failed = !memory;
    return memory;
}

void *otlp_get_table(struct otlp *otlp, size_t count, size_t size) {
    char *items = otlp_get(otlp, count * size);
    char **table = otlp_get(otlp, count * sizeof *table);
    for (size_t i = 0; i < count && table; i++)
        table[i] = items + i * size;
    return otlp->failed ? NULL : table;
}

/* ---- Strings and attributes ---- */

int32_t otlp_add_string(struct otlp *otlp, const char *text) {
    Dictionary *dictionary = &otlp->dictionary;
    for (size_t i = 0; i < dictionary->n_string_table; i++)
        if (strcmp(dictionary->string_table[i], text) == 0)
            return (int32_t)i;
    if (dictionary->n_string_table == otlp->string_capacity)
        otlp->failed = true; /* more strings than this file adds */
    else
        dictionary->string_table[dictionary->n_string_table++] = (char *)text;
    return (int32_t)dictionary->n_string_table - 1;
}

void otlp_fill_strings(struct otlp *otlp) {
    Dictionary *dictionary = &otlp->dictionary;
    size_t count = sonde_profile_string_count(otlp->profile);
    otlp->string_capacity = count + EXTRA_STRINGS;
    dictionary->string_table =
        otlp_get(otlp, otlp->string_capacity * sizeof *dictionary->string_table);
    for (size_t i = 0; i < count && !otlp->failed; i++)
        dictionary->string_table[i] = (char *)sonde_profile_text(otlp->profile, (uint32_t)i);
    dictionary->n_string_table = otlp->failed ? 0 : count;
}

static bool is_attribute(const Attribute *attribute, int32_t key, const char *text,
                         int64_t number) {
    if (attribute->key_strindex != key || !attribute->value)
        return false;
    bool is_text = attribute->value->value_case == TEXT_VALUE;
    return text ? is_text && strcmp(attribute->value->string_value, text) == 0
                : !is_text && attribute->value->int_value == number;
}

static bool grow_attributes(struct otlp *otlp) {
    Dictionary *dictionary = &otlp->dictionary;
    if (dictionary->n_attribute_table < otlp->attribute_capacity)
        return true;
    size_t capacity = otlp->attribute_capacity * 2 + 64;
    Attribute **larger = otlp_get(otlp, capacity * sizeof(Attribute *));
    if (!larger)
        return false;
    if (dictionary->n_attribute_table)
        memcpy(larger, dictionary->attribute_table,
               dictionary->n_attribute_table * sizeof(Attribute *));
    dictionary->attribute_table = larger;
    otlp->attribute_capacity = capacity;
    return true;
}

int32_t otlp_add_attribute(struct otlp *otlp, int32_t key, const char *text, int64_t number) {
    Dictionary *dictionary = &otlp->dictionary;
    uint32_t value = text ? hash_index_data(&otlp->attributes, text, strlen(text)) : 0, found;
    uint32_t hash = hash_index_words(&otlp->attributes, (uint64_t)key << 32 | value,
                                     text ? 0 : (uint64_t)number);
    struct hash_probe probe = hash_probe(hash);
    while ((found = hash_index_next(&otlp->attributes, &probe)) != HASH_INDEX_NONE)
        if (is_attribute(dictionary->attribute_table[found], key, text, number))
            return (int32_t)found;
    Attribute *attribute = otlp_get(otlp, sizeof *attribute);
    AnyValue *any = otlp_get(otlp, sizeof *any);
    if (!attribute || !any || !grow_attributes(otlp))
        return 0;
    *attribute = (Attribute)INIT(KEY_VALUE_AND_UNIT);
    *any = (AnyValue)INIT(ANY_VALUE);
    any->value_case = text ? TEXT_VALUE : INT_VALUE;
    if (text)
        any->string_value = (char *)text;
    else
        any->int_value = number;
    attribute->key_strindex = key;
    attribute->value = any;
    uint32_t index = (uint32_t)dictionary->n_attribute_table++;
    dictionary->attribute_table[index] = attribute;
    otlp->failed |= !hash_index_add(&otlp->attributes, hash, index);
    return (int32_t)index;
}

/* Entry 0 of the tables that are OTLP's own. */
void otlp_begin_tables(struct otlp *otlp) {
    Dictionary *dictionary = &otlp->dictionary;
    size_t samples = sonde_profile_sample_count(otlp->profile);
    dictionary->link_table = otlp_get_table(otlp, samples + 1, sizeof(Link));
    dictionary->stack_table = otlp_get_table(otlp, samples + 1, sizeof(Stack));
    otlp->sample_stacks = otlp_get(otlp, (samples + 1) * sizeof *otlp->sample_stacks);
    Attribute *none = otlp_get(otlp, sizeof *none);
    if (otlp->failed || !grow_attributes(otlp))
        return;
    *none = (Attribute)INIT(KEY_VALUE_AND_UNIT);
    *dictionary->link_table[0] = (Link)INIT(LINK);
    *dictionary->stack_table[0] = (Stack)INIT(STACK);
    dictionary->attribute_table[0] = none;
    dictionary->n_link_table = dictionary->n_stack_table = dictionary->n_attribute_table = 1;
}

/* ---- Links ---- */

static bool read_hex(const char *text, uint8_t *bytes, size_t len) {
    static const char digits[] = "0123456789abcdef";
    bool is_zero = true;
    if (strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < 2 * len; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit)
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (digit - digits));
        is_zero = is_zero && text[i] == '0';
    }
    return !is_zero;
}

static int32_t append_link(struct otlp *otlp, const uint8_t *ids, uint32_t hash) {
    Dictionary *dictionary = &otlp->dictionary;
    Link *link = otlp_get(otlp, sizeof *link);
    uint8_t *copy = otlp_get(otlp, TRACE_BYTES + SPAN_BYTES);
    if (!copy)
        return 0;
    uint32_t index = (uint32_t)dictionary->n_link_table++;
    memcpy(copy, ids, TRACE_BYTES + SPAN_BYTES);
    *link = (Link)INIT(LINK);
    link->trace_id = (ProtobufCBinaryData){TRACE_BYTES, copy};
    link->span_id = (ProtobufCBinaryData){SPAN_BYTES, copy + TRACE_BYTES};
    dictionary->link_table[index] = link;
    otlp->failed |= !hash_index_add(&otlp->links, hash, index);
    return (int32_t)index;
}

int32_t otlp_add_link(struct otlp *otlp, const char *trace_id, const char *span_id) {
    uint8_t ids[TRACE_BYTES + SPAN_BYTES] = {0};
    if (!read_hex(trace_id, ids, TRACE_BYTES) || !read_hex(span_id, ids + TRACE_BYTES, SPAN_BYTES))
        return 0;
    uint32_t hash = hash_index_data(&otlp->links, ids, sizeof ids), found;
    struct hash_probe probe = hash_probe(hash);
    while ((found = hash_index_next(&otlp->links, &probe)) != HASH_INDEX_NONE)
        if (memcmp(otlp->dictionary.link_table[found]->trace_id.data, ids, sizeof ids) == 0)
            return (int32_t)found;
    return append_link(otlp, ids, hash);
}
