/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive-descent parser for both grammars. Only NOT and parentheses recurse, and their depth
 * is bounded.
 *
 *     or         = and { OR and }
 *     and        = unary { AND unary }
 *     unary      = NOT unary | "(" or ")" | comparison
 *     comparison = name ( operator value | [NOT] LIKE text | [NOT] REGEXP text
 *                       | [NOT] IN "(" value { "," value } ")" )
 *     braces     = "{" [ matcher { "," matcher } [ "," ] ] "}"
 *     matcher    = name ( "=" | "!=" | "=~" | "!~" ) text */
#include "api/text/utf8.h"
#include "service/store/selector/scan.h"
#include "service/store/selector/tree.h"

#include <stdlib.h>
#include <string.h>

struct parser {
    struct scan scan;
    struct selector *selector;
    selector_on_name *on_name;
    void *context;
    int depth;
};

static sonde_err out_of_memory(struct parser *parser) {
    return sonde_fail(parser->scan.diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

static sonde_err add_node(struct parser *parser, enum selector_kind kind,
                          const struct selector_node *left, const struct selector_node *right,
                          struct selector_node **node) {
    if (parser->selector->node_count == SELECTOR_MAX_NODES)
        return sonde_fail(parser->scan.diag, SONDE_INVALID_ARGUMENT,
                          "byte %zu: expected at most %d comparisons, AND, OR and NOT together",
                          parser->scan.at, SELECTOR_MAX_NODES);
    *node = sonde_arena_alloc(&parser->selector->arena, sizeof **node);
    if (!*node)
        return out_of_memory(parser);
    parser->selector->node_count++;
    (*node)->kind = kind;
    (*node)->left = left;
    (*node)->right = right;
    return SONDE_OK;
}

/* Adds NOT above the node if is_negated. */
static sonde_err negate(struct parser *parser, bool is_negated, struct selector_node **node) {
    return is_negated ? add_node(parser, SELECTOR_NOT, *node, NULL, node) : SONDE_OK;
}

static sonde_err parse_name(struct parser *parser, const char **name) {
    struct scan *scan = &parser->scan;
    struct sonde_diag refusal = {0};
    scan_end(scan);
    size_t at = scan->at;
    sonde_err err = scan_name(scan, name);
    if (err || !parser->on_name)
        return err;
    err = parser->on_name(parser->context, name, &refusal);
    if (err)
        sonde_fail(scan->diag, err, "byte %zu: %s", at, sonde_diag_text(&refusal, err));
    return err;
}

static sonde_err add_values(struct parser *parser, struct selector_node *node,
                            const char *const *values, size_t count) {
    const char **copy = sonde_arena_alloc(&parser->selector->arena, count * sizeof *copy);
    if (!copy)
        return out_of_memory(parser);
    memcpy(copy, values, count * sizeof *copy);
    node->values = copy;
    node->value_count = count;
    return SONDE_OK;
}

static sonde_err compile(struct parser *parser, size_t at, const char *pattern,
                         struct regexp **regexp) {
    char reason[128];
    size_t offset;
    *regexp = regexp_compile(pattern, &offset, reason, sizeof reason);
    if (*regexp)
        return SONDE_OK;
    return sonde_fail(parser->scan.diag, SONDE_INVALID_ARGUMENT,
                      "byte %zu: expected a regular expression: %s at byte %zu of it", at, reason,
                      offset);
}

/* ^(?:...)$, if the pattern alone is correct; so its parentheses cannot close ours. */
static sonde_err anchor(struct parser *parser, size_t at, const char **pattern) {
    struct regexp *alone;
    sonde_err err = compile(parser, at, *pattern, &alone);
    if (err)
        return err;
    regexp_destroy(alone);
    size_t len = strlen(*pattern);
    char *text = sonde_arena_alloc(&parser->selector->arena, len + sizeof "^(?:)$");
    if (!text)
        return out_of_memory(parser);
    memcpy(text, "^(?:", 4);
    memcpy(text + 4, *pattern, len);
    memcpy(text + 4 + len, ")$", 3);
    *pattern = text;
    return SONDE_OK;
}

/* The value of LIKE, REGEXP, =~ and !~. */
static sonde_err parse_pattern(struct parser *parser, struct selector_node *node,
                               bool is_anchored) {
    struct selector *selector = parser->selector;
    struct regexp *regexp;
    const char *pattern;
    scan_end(&parser->scan);
    size_t at = parser->scan.at;
    sonde_err err = scan_text(&parser->scan, &pattern);
    if (!err && is_anchored)
        err = anchor(parser, at, &pattern);
    if (!err && node->kind == SELECTOR_MATCH) {
        err = compile(parser, at, pattern, &regexp);
        if (!err)
            node->compiled = selector->regexps[selector->regexp_count++] = regexp;
    }
    return err ? err : add_values(parser, node, &pattern, 1);
}

static sonde_err parse_list(struct parser *parser, struct selector_node *node) {
    const char *values[SELECTOR_MAX_LIST];
    struct scan *scan = &parser->scan;
    size_t count = 0;
    sonde_err err = SONDE_OK;
    if (!scan_take(scan, "("))
        return scan_fail(scan, scan->at, "( after IN");
    do {
        if (count == SELECTOR_MAX_LIST)
            return scan_fail(scan, scan->at, "at most 256 values after IN");
        err = scan_value(scan, &values[count++]);
    } while (!err && scan_take(scan, ","));
    if (!err && !scan_take(scan, ")"))
        err = scan_fail(scan, scan->at, ", or )");
    return err ? err : add_values(parser, node, values, count);
}

/* IN, LIKE, REGEXP; after NOT or without it. */
static sonde_err parse_word_operator(struct parser *parser, const char *name,
                                     struct selector_node **node) {
    struct scan *scan = &parser->scan;
    bool is_negated = scan_word(scan, "NOT");
    enum selector_kind kind;
    if (scan_word(scan, "IN"))
        kind = SELECTOR_IN;
    else if (scan_word(scan, "LIKE"))
        kind = SELECTOR_LIKE;
    else if (scan_word(scan, "REGEXP"))
        kind = SELECTOR_MATCH;
    else
        return scan_fail(scan, scan->at,
                         is_negated
                             ? "IN, LIKE or REGEXP after NOT"
                             : "an operator: = != <> < <= > >= IN LIKE REGEXP or NOT before them");
    sonde_err err = add_node(parser, kind, NULL, NULL, node);
    if (err)
        return err;
    (*node)->name = name;
    err = kind == SELECTOR_IN ? parse_list(parser, *node) : parse_pattern(parser, *node, false);
    return err ? err : negate(parser, is_negated, node);
}

static sonde_err parse_comparison(struct parser *parser, struct selector_node **node) {
    static const struct {
        const char *token;
        enum selector_kind kind;
    } operators[] = {
        {"!=", SELECTOR_NOT_EQUAL},     {"<>", SELECTOR_NOT_EQUAL}, {"<=", SELECTOR_LESS_EQUAL},
        {">=", SELECTOR_GREATER_EQUAL}, {"=", SELECTOR_EQUAL},      {"<", SELECTOR_LESS},
        {">", SELECTOR_GREATER},
    };
    const char *name, *value;
    size_t i = 0, count = sizeof operators / sizeof operators[0];
    sonde_err err = parse_name(parser, &name);
    while (!err && i < count && !scan_take(&parser->scan, operators[i].token))
        i++;
    if (err || i == count)
        return err ? err : parse_word_operator(parser, name, node);
    err = scan_value(&parser->scan, &value);
    if (!err)
        err = add_node(parser, operators[i].kind, NULL, NULL, node);
    if (err)
        return err;
    (*node)->name = name;
    return add_values(parser, *node, &value, 1);
}

static sonde_err parse_or(struct parser *parser, struct selector_node **node);

static sonde_err parse_unary(struct parser *parser, struct selector_node **node) {
    struct scan *scan = &parser->scan;
    bool is_negated = scan_word(scan, "NOT");
    if (!is_negated && !scan_take(scan, "("))
        return parse_comparison(parser, node);
    if (parser->depth == SELECTOR_MAX_DEPTH)
        return scan_fail(scan, scan->at, "at most 32 levels of NOT and parentheses");
    parser->depth++;
    sonde_err err = is_negated ? parse_unary(parser, node) : parse_or(parser, node);
    parser->depth--;
    if (err || is_negated)
        return err ? err : negate(parser, true, node);
    return scan_take(scan, ")") ? SONDE_OK : scan_fail(scan, scan->at, "AND, OR or )");
}

static sonde_err parse_and(struct parser *parser, struct selector_node **node) {
    struct selector_node *right;
    sonde_err err = parse_unary(parser, node);
    while (!err && scan_word(&parser->scan, "AND")) {
        err = parse_unary(parser, &right);
        if (!err)
            err = add_node(parser, SELECTOR_AND, *node, right, node);
    }
    return err;
}

static sonde_err parse_or(struct parser *parser, struct selector_node **node) {
    struct selector_node *right;
    sonde_err err = parse_and(parser, node);
    while (!err && scan_word(&parser->scan, "OR")) {
        err = parse_and(parser, &right);
        if (!err)
            err = add_node(parser, SELECTOR_OR, *node, right, node);
    }
    return err;
}

static sonde_err parse_matcher(struct parser *parser, struct selector_node **node) {
    struct scan *scan = &parser->scan;
    const char *name, *value;
    sonde_err err = parse_name(parser, &name);
    if (err)
        return err;
    bool is_match = scan_take(scan, "=~"), is_not_match = !is_match && scan_take(scan, "!~");
    bool is_not_equal = !is_match && !is_not_match && scan_take(scan, "!=");
    if (!is_match && !is_not_match && !is_not_equal && !scan_take(scan, "="))
        return scan_fail(scan, scan->at, "an operator: = != =~ !~");
    enum selector_kind kind = is_match || is_not_match ? SELECTOR_MATCH
                              : is_not_equal           ? SELECTOR_NOT_EQUAL
                                                       : SELECTOR_EQUAL;
    err = add_node(parser, kind, NULL, NULL, node);
    if (err)
        return err;
    (*node)->name = name;
    if (kind == SELECTOR_MATCH) {
        err = parse_pattern(parser, *node, true);
        return err ? err : negate(parser, is_not_match, node);
    }
    err = scan_text(scan, &value);
    return err ? err : add_values(parser, *node, &value, 1);
}

static sonde_err parse_braces(struct parser *parser, struct selector_node **node) {
    struct scan *scan = &parser->scan;
    struct selector_node *all = NULL, *one;
    sonde_err err = SONDE_OK;
    bool has_more = true;
    while (!err && has_more && !scan_take(scan, "}")) {
        err = parse_matcher(parser, &one);
        if (!err && all)
            err = add_node(parser, SELECTOR_AND, all, one, &one);
        all = one;
        has_more = !err && scan_take(scan, ",");
        if (!err && !has_more && !scan_take(scan, "}"))
            err = scan_fail(scan, scan->at, ", or }");
    }
    *node = all;
    return err;
}

static sonde_err check_text(const char *text, struct sonde_diag *diag) {
    size_t len = strnlen(text, SELECTOR_MAX_BYTES + 1), at = 0, step = 1;
    uint32_t code;
    if (len > SELECTOR_MAX_BYTES)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "byte %d: expected at most %d bytes",
                          SELECTOR_MAX_BYTES, SELECTOR_MAX_BYTES);
    for (; at < len && step; at += step)
        step = sonde_utf8_next(text + at, len - at, &code);
    return step ? SONDE_OK
                : sonde_fail(diag, SONDE_INVALID_ARGUMENT, "byte %zu: expected UTF-8", at);
}

static sonde_err parse_all(struct parser *parser) {
    struct scan *scan = &parser->scan;
    struct selector_node *root = NULL;
    sonde_err err = SONDE_OK;
    bool has_braces = scan_take(scan, "{");
    if (has_braces)
        err = parse_braces(parser, &root);
    else if (!scan_end(scan))
        err = parse_or(parser, &root);
    if (!err && !scan_end(scan))
        err = scan_fail(scan, scan->at, has_braces ? "nothing after }" : "AND or OR");
    parser->selector->root = root;
    return err;
}

sonde_err selector_parse(const char *text, selector_on_name *on_name, void *context,
                         struct selector **selector, struct sonde_diag *diag) {
    *selector = NULL;
    sonde_err err = check_text(text, diag);
    if (err)
        return err;
    struct selector *result = calloc(1, sizeof *result);
    if (!result)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    struct parser parser = {
        .scan = {.text = text, .arena = &result->arena, .diag = diag},
        .selector = result,
        .on_name = on_name,
        .context = context,
    };
    err = parse_all(&parser);
    if (err)
        selector_destroy(result);
    else
        *selector = result;
    return err;
}
