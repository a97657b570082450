/* SPDX-License-Identifier: Apache-2.0
 *
 * Edit distance by the usual table, of which three rows are kept: row i has the distances of the
 * word's first i letters from all beginnings of the name. A swap looks two rows back. */
#include "api/text/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define MAX_LEN    40
#define MIN_PREFIX 3

static bool is_same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The distance of word[0..i] from name[0..j]. */
static size_t cell(const char *word, const char *name, size_t rows[3][MAX_LEN + 1], size_t i,
                   size_t j) {
    const size_t *above = rows[(i - 1) % 3];
    size_t replaced = above[j - 1] + !is_same(word[i - 1], name[j - 1]);
    size_t best = least(replaced, least(above[j], rows[i % 3][j - 1]) + 1);
    if (i > 1 && j > 1 && is_same(word[i - 1], name[j - 2]) && is_same(word[i - 2], name[j - 1]))
        best = least(best, rows[(i - 2) % 3][j - 2] + 1);
    return best;
}

static size_t distance(const char *word, size_t word_len, const char *name, size_t name_len) {
    size_t rows[3][MAX_LEN + 1];
    for (size_t j = 0; j <= name_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= word_len; i++) {
        rows[i % 3][0] = i;
        for (size_t j = 1; j <= name_len; j++)
            rows[i % 3][j] = cell(word, name, rows, i, j);
    }
    return rows[word_len % 3][name_len];
}

/* The only name that starts with the word. */
static const char *completed(const char *word, size_t len, const char *const *names, size_t count) {
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (len < MIN_PREFIX || !names[i] || strncasecmp(names[i], word, len) != 0)
            continue;
        if (found)
            return NULL;
        found = names[i];
    }
    return found;
}

const char *sonde_nearest(const char *word, const char *const *names, size_t count) {
    size_t len = strnlen(word, MAX_LEN + 1);
    if (len == 0 || len > MAX_LEN)
        return NULL;
    size_t best = len <= 4 ? 2 : len <= 8 ? 3 : 4; /* one more than is near */
    const char *found = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t name_len = names[i] ? strnlen(names[i], MAX_LEN + 1) : 0;
        if (name_len == 0 || name_len > MAX_LEN)
            continue;
        size_t errors = distance(word, len, names[i], name_len);
        /* Replacing every letter is not a typing error. */
        if (errors < best && errors < len && errors < name_len) {
            best = errors;
            found = names[i];
        }
    }
    return found ? found : completed(word, len, names, count);
}
