/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/query.h"

#include "api/text/nearest.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QUOTED  64
#define MAX_DECIMAL 63
#define MAX_NAME    40 /* longer ones are near nothing */

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static size_t decode(struct sonde_slice in, bool plus_is_space, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < in.len; i++) {
        char byte = in.data[i];
        if (byte == '%' && i + 2 < in.len && hex_value(in.data[i + 1]) >= 0 &&
            hex_value(in.data[i + 2]) >= 0) {
            byte = (char)(hex_value(in.data[i + 1]) << 4 | hex_value(in.data[i + 2]));
            i += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        out[used++] = byte;
    }
    return used;
}

size_t query_decode_path(struct sonde_slice in, char *out) {
    return decode(in, false, out);
}

static size_t count_pieces(struct sonde_slice text) {
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '&';
    return count;
}

static void *must_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort(); /* the gateway may exit when out of memory */
    return memory;
}

/* Decodes one "key=value" to *out and advances it. */
static struct query_pair read_pair(struct sonde_slice piece, char **out) {
    const char *equals = memchr(piece.data, '=', piece.len);
    size_t key_len = equals ? (size_t)(equals - piece.data) : piece.len;
    struct sonde_slice value = {piece.data + key_len, piece.len - key_len};
    if (equals)
        value.data++, value.len--;
    struct query_pair pair;
    pair.key =
        (struct sonde_slice){*out, decode((struct sonde_slice){piece.data, key_len}, true, *out)};
    *out += pair.key.len;
    pair.value = (struct sonde_slice){*out, decode(value, true, *out)};
    *out += pair.value.len;
    return pair;
}

void query_parse(struct query *query, struct sonde_slice text) {
    query->pairs = must_alloc(count_pieces(text), sizeof query->pairs[0]);
    query->storage = must_alloc(text.len, 1);
    query->count = 0;
    char *out = query->storage;
    size_t start = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != '&')
            continue;
        if (i > start)
            query->pairs[query->count++] =
                read_pair((struct sonde_slice){text.data + start, i - start}, &out);
        start = i + 1;
    }
}

void query_finish(struct query *query) {
    free(query->pairs);
    free(query->storage);
    *query = (struct query){0};
}

bool query_get(const struct query *query, const char *key, struct sonde_slice *value) {
    for (size_t i = query->count; i > 0; i--)
        if (sonde_slice_equals(query->pairs[i - 1].key, key)) {
            *value = query->pairs[i - 1].value;
            return true;
        }
    return false;
}

size_t query_occurrences(const struct query *query, const char *key) {
    size_t count = 0;
    for (size_t i = 0; i < query->count; i++)
        count += sonde_slice_equals(query->pairs[i].key, key);
    return count;
}

const char *query_quote(struct sonde_slice value, char text[QUERY_QUOTED_SIZE]) {
    size_t used = 0;
    for (size_t i = 0; i < value.len && i < MAX_QUOTED; i++) {
        unsigned char byte = (unsigned char)value.data[i];
        if (byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\')
            text[used++] = (char)byte;
        else
            used += (size_t)snprintf(text + used, 5, "\\x%02x", byte);
    }
    text[used] = 0;
    return text;
}

/* Removes a number from the front of *text; false if there is none or it does not fit. */
static bool read_digits(struct sonde_slice *text, uint64_t *number) {
    size_t start = text->len;
    *number = 0;
    while (text->len && text->data[0] >= '0' && text->data[0] <= '9') {
        uint64_t digit = (uint64_t)(text->data[0] - '0');
        if (*number > (UINT64_MAX - digit) / 10)
            return false;
        *number = *number * 10 + digit;
        text->data++, text->len--;
    }
    return text->len < start;
}

static sonde_err not_whole(struct sonde_diag *diag, const char *key, struct sonde_slice value,
                           uint64_t low, uint64_t high) {
    char quoted[QUERY_QUOTED_SIZE];
    return sonde_fail(
        diag, SONDE_INVALID_ARGUMENT, "%s: \"%s\" is not a whole number from %llu to %llu", key,
        query_quote(value, quoted), (unsigned long long)low, (unsigned long long)high);
}

sonde_err query_whole(const struct query *query, const char *key, uint64_t low, uint64_t high,
                      uint64_t *value, struct sonde_diag *diag) {
    struct sonde_slice text;
    uint64_t number;
    if (!query_get(query, key, &text))
        return SONDE_OK;
    struct sonde_slice rest = text;
    if (!read_digits(&rest, &number) || rest.len || number < low || number > high)
        return not_whole(diag, key, text, low, high);
    *value = number;
    return SONDE_OK;
}

/* number * 10^exponent without overflow. */
static bool scale(uint64_t *number, uint64_t exponent) {
    for (; exponent && *number; exponent--) {
        if (*number > UINT64_MAX / 10)
            return false;
        *number *= 10;
    }
    return true;
}

sonde_err query_count(const struct query *query, const char *key, uint64_t low, uint64_t high,
                      uint64_t *value, struct sonde_diag *diag) {
    struct sonde_slice text;
    uint64_t number, exponent = 0;
    if (!query_get(query, key, &text))
        return SONDE_OK;
    struct sonde_slice rest = text;
    bool good = read_digits(&rest, &number);
    if (good && rest.len && (rest.data[0] | 0x20) == 'e') {
        rest.data++, rest.len--;
        good = read_digits(&rest, &exponent) && scale(&number, exponent);
    }
    if (!good || rest.len || number < low || number > high)
        return not_whole(diag, key, text, low, high);
    *value = number;
    return SONDE_OK;
}

static size_t skip_digits(struct sonde_slice text, size_t at) {
    while (at < text.len && isdigit((unsigned char)text.data[at]))
        at++;
    return at;
}

/* Checks the grammar, because strtod accepts spaces, signs, "inf" and hexadecimal, too. */
static bool is_decimal(struct sonde_slice text) {
    size_t whole = skip_digits(text, 0), at = whole, digits = whole;
    if (at < text.len && text.data[at] == '.') {
        size_t end = skip_digits(text, at + 1);
        digits += end - (at + 1);
        at = end;
    }
    if (digits == 0)
        return false;
    if (at == text.len)
        return true;
    if ((text.data[at] | 0x20) != 'e')
        return false;
    at++;
    if (at < text.len && (text.data[at] == '+' || text.data[at] == '-'))
        at++;
    size_t end = skip_digits(text, at);
    return end > at && end == text.len;
}

/* -INFINITY, which is below every bound, if the text is not a number. */
static double read_decimal(struct sonde_slice text) {
    char digits[MAX_DECIMAL + 1];
    if (text.len > MAX_DECIMAL || !is_decimal(text))
        return -INFINITY;
    memcpy(digits, text.data, text.len);
    digits[text.len] = 0;
    return strtod(digits, NULL);
}

sonde_err query_share(const struct query *query, const char *key, double low, double high,
                      double *value, struct sonde_diag *diag) {
    struct sonde_slice text;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, key, &text))
        return SONDE_OK;
    struct sonde_slice number = text;
    bool is_percent = text.len > 1 && text.data[text.len - 1] == '%';
    number.len -= is_percent;
    double share = read_decimal(number) / (is_percent ? 100 : 1);
    if (!(share >= low && share <= high))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: \"%s\" is not a share from %g to %g, nor a percentage (1%%)", key,
                          query_quote(text, quoted), low, high);
    *value = share;
    return SONDE_OK;
}

sonde_err query_decimal(const struct query *query, const char *key, double low, double high,
                        double *value, struct sonde_diag *diag) {
    struct sonde_slice text;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, key, &text))
        return SONDE_OK;
    double number = read_decimal(text);
    if (!(number >= low && number <= high))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: \"%s\" is not a number from %g to %g",
                          key, query_quote(text, quoted), low, high);
    *value = number;
    return SONDE_OK;
}

sonde_err query_flag(const struct query *query, const char *key, bool *value,
                     struct sonde_diag *diag) {
    struct sonde_slice text;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, key, &text))
        return SONDE_OK;
    bool yes = sonde_slice_equals(text, "true") || sonde_slice_equals(text, "1");
    if (!yes && !sonde_slice_equals(text, "false") && !sonde_slice_equals(text, "0"))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%s: \"%s\" is not one of true, false, 1, 0", key,
                          query_quote(text, quoted));
    *value = yes;
    return SONDE_OK;
}

bool query_hex(struct sonde_slice text, uint64_t *number) {
    if (text.len >= 2 && strncasecmp(text.data, "0x", 2) == 0)
        text.data += 2, text.len -= 2;
    uint64_t value = 0;
    if (text.len == 0)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_value(text.data[i]);
        if (digit < 0 || value >> 60)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *number = value;
    return true;
}

/* ---- Unknown names ---- */

const char *query_nearest(struct sonde_slice key, const char *const *names, size_t count) {
    char word[MAX_NAME + 1];
    if (key.len > MAX_NAME || memchr(key.data, 0, key.len))
        return NULL;
    memcpy(word, key.data, key.len);
    word[key.len] = 0;
    return sonde_nearest(word, names, count);
}

sonde_err query_refuse_unknown(const char *kind, const char *owner, struct sonde_slice key,
                               const char *near, const char *const *names, size_t count,
                               struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE], list[200] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    query_quote(key, quoted);
    if (near)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unknown %s \"%.80s\"; did you mean %s?",
                          kind, quoted, near);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "unknown %s \"%.80s\"; %s has %s", kind, quoted,
                      owner, count ? list : "none");
}
