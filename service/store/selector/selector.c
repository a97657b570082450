/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/selector/tree.h"

#include <stdlib.h>
#include <string.h>

void selector_destroy(struct selector *selector) {
    if (!selector)
        return;
    for (size_t i = 0; i < selector->regexp_count; i++)
        regexp_destroy(selector->regexps[i]);
    sonde_arena_finish(&selector->arena);
    free(selector);
}

const struct selector_node *selector_root(const struct selector *selector) {
    return selector ? selector->root : NULL;
}

static bool names(const struct selector_node *node, const char *name) {
    if (!node)
        return false;
    return node->name ? strcmp(node->name, name) == 0
                      : names(node->left, name) || names(node->right, name);
}

bool selector_names(const struct selector *selector, const char *name) {
    return names(selector_root(selector), name);
}

const char *selector_integer(const char *text, bool *is_negative) {
    *is_negative = *text == '-';
    text += *is_negative;
    if (!*text || text[strspn(text, "0123456789")])
        return NULL;
    text += strspn(text, "0");
    *is_negative = *is_negative && *text; /* -0 is 0 */
    return text;
}

/* Less than, equal to or greater than 0; integers may have any length. */
static int compare(const char *a, const char *b) {
    bool is_negative_a, is_negative_b;
    const char *digits_a = selector_integer(a, &is_negative_a),
               *digits_b = selector_integer(b, &is_negative_b);
    if (!digits_a || !digits_b)
        return strcmp(a, b);
    if (is_negative_a != is_negative_b)
        return is_negative_a ? -1 : 1;
    size_t len_a = strlen(digits_a), len_b = strlen(digits_b);
    int order = len_a != len_b ? (len_a < len_b ? -1 : 1) : strcmp(digits_a, digits_b);
    return is_negative_a ? -order : order;
}

static bool is_in(const struct selector_node *node, const char *value) {
    size_t i = 0;
    while (i < node->value_count && strcmp(node->values[i], value) != 0)
        i++;
    return i < node->value_count;
}

static bool compares(const struct selector_node *node, const char *value) {
    const char *wanted = node->values[0];
    switch (node->kind) {
    case SELECTOR_EQUAL:
    case SELECTOR_IN:
        return is_in(node, value);
    case SELECTOR_NOT_EQUAL:
        return !is_in(node, value);
    case SELECTOR_LESS:
        return compare(value, wanted) < 0;
    case SELECTOR_LESS_EQUAL:
        return compare(value, wanted) <= 0;
    case SELECTOR_GREATER:
        return compare(value, wanted) > 0;
    case SELECTOR_GREATER_EQUAL:
        return compare(value, wanted) >= 0;
    case SELECTOR_LIKE:
        return selector_like(wanted, value);
    default:
        return regexp_matches(node->compiled, value);
    }
}

static bool matches(const struct selector_node *node, selector_value *value, void *context) {
    switch (node->kind) {
    case SELECTOR_AND:
        return matches(node->left, value, context) && matches(node->right, value, context);
    case SELECTOR_OR:
        return matches(node->left, value, context) || matches(node->right, value, context);
    case SELECTOR_NOT:
        return !matches(node->left, value, context);
    default:
        return compares(node, value(context, node->name));
    }
}

bool selector_matches(const struct selector *selector, selector_value *value, void *context) {
    const struct selector_node *root = selector_root(selector);
    return !root || matches(root, value, context);
}
