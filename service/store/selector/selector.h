/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions on the labels of windows, as people write them. Two grammars, told apart by the first
 * character that is not blank:
 *
 *     pod_ns = 'app' AND (version IN ('1', '2') OR NOT host LIKE 'db-%')      SQL's
 *     {pod_ns="app", version=~"1|2"}                                          Prometheus'
 *
 * Names may have dots; other names are written in back-quotes. Values are in single or double
 * quotes, where \' \" \\ and a doubled quote mean one character, or decimal numbers.
 *
 * Parsing yields a tree. Engines evaluate it (selector_matches) or translate it with the values
 * bound or quoted; nothing from the text is ever pasted into a statement. A label that does not
 * exist equals "". <, <=, > and >= compare numbers if both sides are decimal integers, else bytes.
 * Thread safety: a selector does not change after parsing; any thread. */
#ifndef SONDE_SERVICE_STORE_SELECTOR_SELECTOR_H
#define SONDE_SERVICE_STORE_SELECTOR_SELECTOR_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SELECTOR_MAX_BYTES 4096
#define SELECTOR_MAX_NODES 256 /* comparisons, AND, OR and NOT together */
#define SELECTOR_MAX_DEPTH 32
#define SELECTOR_MAX_LIST  256 /* values of one IN */
/* Steps of a regular expression from one position in a label's value. */
#define SELECTOR_MATCH_LIMIT 50000

enum selector_kind {
    SELECTOR_AND,
    SELECTOR_OR,
    SELECTOR_NOT,
    SELECTOR_EQUAL, /* the comparisons: name and values */
    SELECTOR_NOT_EQUAL,
    SELECTOR_LESS,
    SELECTOR_LESS_EQUAL,
    SELECTOR_GREATER,
    SELECTOR_GREATER_EQUAL,
    SELECTOR_IN,
    SELECTOR_LIKE,  /* % = any text, _ = one character, \ escapes */
    SELECTOR_MATCH, /* a regular expression; for engines it is not anchored: =~ is parsed as
                       ^(?:...)$ */
};

/* The tree, for engines that translate it. */
struct selector_node {
    enum selector_kind kind;
    const struct selector_node *left, *right; /* NOT: left only */
    const char *name;                         /* comparisons */
    const char *const *values;                /* one, or several for IN */
    size_t value_count;
    void *compiled; /* MATCH: for selector_matches only */
};

struct selector;

/* Checks the name of a label, for grammars with a fixed list of names (DeepFlow's tag_filter): an
 * error refuses it, and diag's text says what is expected. May replace the name by another one that
 * outlives the selector. */
typedef sonde_err selector_on_name(void *context, const char **name, struct sonde_diag *diag);

/* Text that is empty or blank is a selector that matches everything. on_name may be NULL. Errors:
 * SONDE_INVALID_ARGUMENT, with the byte offset and what was expected; SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err selector_parse(const char *text, selector_on_name *on_name, void *context,
                                        struct selector **selector, struct sonde_diag *diag);
void selector_destroy(struct selector *selector); /* NULL is fine */

/* The digits of a decimal integer without leading zeros (those of 0: none), and its sign; 0 is not
 * negative. NULL if the text is not one. Borrowed from the text. For engines that compare numbers.
 */
const char *selector_integer(const char *text, bool *is_negative);

/* NULL = matches everything. selector may be NULL. */
const struct selector_node *selector_root(const struct selector *selector);
/* Whether some comparison names this label. */
bool selector_names(const struct selector *selector, const char *name);

/* Returns the value of a label, "" if there is none. */
typedef const char *selector_value(void *context, const char *name);
/* A regular expression that exceeds PCRE2's match limit does not match. selector may be NULL. */
bool selector_matches(const struct selector *selector, selector_value *value, void *context);

#endif
