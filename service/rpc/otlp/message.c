/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *otlp_string(const otlp_dictionary *dictionary, int32_t index) {
    return index > 0 && (size_t)index < dictionary->n_string_table ? dictionary->string_table[index]
                                                                   : "";
}

#define ANY(kind) OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__ANY_VALUE__##kind

/* Entry 0 of each table means "none". */
#define ENTRY(table, index)                                         \
    ((index) > 0 && (size_t)(index) < dictionary->n_##table##_table \
         ? dictionary->table##_table[index]                         \
         : NULL)

const otlp_mapping *otlp_mapping_at(const otlp_dictionary *dictionary, int32_t index) {
    return ENTRY(mapping, index);
}

const otlp_location *otlp_location_at(const otlp_dictionary *dictionary, int32_t index) {
    return ENTRY(location, index);
}

const otlp_function *otlp_function_at(const otlp_dictionary *dictionary, int32_t index) {
    return ENTRY(function, index);
}

const otlp_stack *otlp_stack_at(const otlp_dictionary *dictionary, int32_t index) {
    return ENTRY(stack, index);
}

static int64_t number_of(const char *text) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 ? number : -1;
}

static void read_value(const otlp_dictionary *dictionary, const otlp_any_value *value,
                       struct otlp_attribute *attribute) {
    attribute->text = "";
    attribute->number = -1;
    switch (value ? value->value_case : 0) {
    case ANY(VALUE_STRING_VALUE):
        attribute->text = value->string_value;
        break;
    case ANY(VALUE_STRING_VALUE_STRINDEX):
        attribute->text = otlp_string(dictionary, value->string_value_strindex);
        break;
    case ANY(VALUE_INT_VALUE):
        attribute->number = value->int_value;
        return;
    default:
        return;
    }
    attribute->number = number_of(attribute->text);
}

bool otlp_attribute_at(const otlp_dictionary *dictionary, int32_t index,
                       struct otlp_attribute *attribute) {
    if (index <= 0 || (size_t)index >= dictionary->n_attribute_table)
        return false;
    attribute->key = otlp_string(dictionary, dictionary->attribute_table[index]->key_strindex);
    read_value(dictionary, dictionary->attribute_table[index]->value, attribute);
    return true;
}

void otlp_attribute_of(const otlp_dictionary *dictionary, const otlp_key_value *from,
                       struct otlp_attribute *attribute) {
    attribute->key = from->key[0] ? from->key : otlp_string(dictionary, from->key_strindex);
    read_value(dictionary, from->value, attribute);
}

const char *otlp_find_text(const otlp_dictionary *dictionary, const int32_t *indices, size_t count,
                           const char *key) {
    struct otlp_attribute attribute;
    for (size_t i = 0; i < count; i++)
        if (otlp_attribute_at(dictionary, indices[i], &attribute) &&
            strcmp(attribute.key, key) == 0)
            return attribute.text;
    return "";
}
