/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/tokens.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS 64
#define MAX_LEN    256

struct token {
    unsigned char bytes[MAX_LEN + 1]; /* padded with zeros */
    unsigned scopes;
    int line;
};

struct sonde_tokens {
    struct token items[MAX_TOKENS];
    size_t count, min_len;
};

static struct sonde_slice next_word(struct sonde_slice *rest, const char *separators) {
    while (rest->len && strchr(separators, *rest->data))
        rest->data++, rest->len--;
    struct sonde_slice word = {rest->data, 0};
    while (rest->len && !strchr(separators, *rest->data)) {
        word.len++;
        rest->data++, rest->len--;
    }
    return word;
}

/* 0: there is none of that name. */
static unsigned find_scope(struct sonde_slice word) {
    static const struct {
        const char *name;
        enum sonde_scope scope;
    } scopes[] = {
        {"read", SONDE_SCOPE_READ},
        {"control", SONDE_SCOPE_CONTROL},
        {"register", SONDE_SCOPE_REGISTER},
    };
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++)
        if (sonde_slice_equals(word, scopes[i].name))
            return scopes[i].scope;
    return 0;
}

static sonde_err parse_scopes(struct sonde_slice rest, unsigned *scopes, int line,
                              struct sonde_diag *diag) {
    *scopes = 0;
    for (;;) {
        struct sonde_slice word = next_word(&rest, ", \t\r");
        if (word.len == 0)
            break;
        unsigned scope = find_scope(word);
        if (!scope)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "token file, line %d: a scope must be read, control or register",
                              line);
        *scopes |= scope;
    }
    if (*scopes == 0)
        *scopes = SONDE_SCOPE_READ | SONDE_SCOPE_CONTROL | SONDE_SCOPE_REGISTER;
    return SONDE_OK;
}

static sonde_err parse_line(struct sonde_tokens *tokens, struct sonde_slice rest, int line,
                            struct sonde_diag *diag) {
    struct sonde_slice word = next_word(&rest, " \t\r");
    if (word.len == 0 || *word.data == '#')
        return SONDE_OK;
    if (word.len < tokens->min_len || word.len > MAX_LEN)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "token file, line %d: a token must have %zu to %d characters", line,
                          tokens->min_len, MAX_LEN);
    if (tokens->count == MAX_TOKENS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "token file, line %d: at most %d tokens",
                          line, MAX_TOKENS);
    struct token *token = &tokens->items[tokens->count++];
    memcpy(token->bytes, word.data, word.len);
    token->line = line;
    return parse_scopes(rest, &token->scopes, line, diag);
}

sonde_err sonde_tokens_parse(struct sonde_slice text, size_t min_len, struct sonde_tokens **out,
                             struct sonde_diag *diag) {
    struct sonde_tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    tokens->min_len = min_len;
    sonde_err err = SONDE_OK;
    for (int line = 1; text.len && !err; line++) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        err = parse_line(tokens, (struct sonde_slice){text.data, len}, line, diag);
        text.data += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
    if (!err && tokens->count == 0)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the token file has no tokens");
    if (err)
        sonde_tokens_destroy(tokens);
    else
        *out = tokens;
    return err;
}

void sonde_tokens_destroy(struct sonde_tokens *tokens) {
    if (!tokens)
        return;
    explicit_bzero(tokens, sizeof *tokens);
    free(tokens);
}

static bool token_equals(const unsigned char *a, const unsigned char *b) {
    volatile unsigned char difference = 0;
    for (size_t i = 0; i <= MAX_LEN; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

/* Compares with every token, so that the time does not tell which one was close. A token that is
 * listed twice has both lines' scopes. */
struct sonde_token_match sonde_tokens_find(const struct sonde_tokens *tokens,
                                           struct sonde_slice authorization) {
    struct sonde_slice scheme = next_word(&authorization, " "),
                       sent = next_word(&authorization, " ");
    unsigned char padded[MAX_LEN + 1] = {0};
    struct sonde_token_match match = {0};
    if (scheme.len != 6 || strncasecmp(scheme.data, "bearer", 6) != 0 || sent.len > MAX_LEN)
        return match;
    memcpy(padded, sent.data, sent.len);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token *token = &tokens->items[i];
        if (!token_equals(padded, token->bytes))
            continue;
        match.scopes |= token->scopes;
        match.line = token->line;
    }
    return match;
}

bool sonde_tokens_equal(const struct sonde_tokens *a, const struct sonde_tokens *b) {
    bool is_equal = a->count == b->count;
    for (size_t i = 0; i < a->count && is_equal; i++)
        is_equal = token_equals(a->items[i].bytes, b->items[i].bytes) &&
                   a->items[i].scopes == b->items[i].scopes && a->items[i].line == b->items[i].line;
    return is_equal;
}

struct sonde_slice sonde_tokens_first(const struct sonde_tokens *tokens) {
    return sonde_slice_of((const char *)tokens->items[0].bytes);
}
