/* SPDX-License-Identifier: Apache-2.0
 *
 * Small texts that the service reads: token files, "authorization" headers, and texts for answers.
 * Addresses are left out, because parsing one may start a DNS lookup. */
#include "api/os/secrets/tokens.h"
#include "service/rpc/base/text.h"

#include <stdlib.h>
#include <string.h>

static void try_tokens(struct sonde_slice file, struct sonde_slice header) {
    struct sonde_tokens *tokens = NULL;
    struct sonde_diag diag = {0};
    if (sonde_tokens_parse(file, 16, &tokens, &diag))
        return;
    if (sonde_tokens_find(tokens, header).scopes &
        ~(unsigned)(SONDE_SCOPE_READ | SONDE_SCOPE_CONTROL | SONDE_SCOPE_REGISTER))
        abort();
    sonde_tokens_destroy(tokens);
}

/* Escaping an escaped text must not change it, and a truncated copy must fit and be valid UTF-8. */
static void try_text(const char *text) {
    struct sonde_arena arena = {0};
    char cut[64];
    const char *clean = rpc_text(&arena, text);
    if (rpc_text(&arena, clean) != clean)
        abort();
    size_t size = 1 + strlen(text) % sizeof cut;
    rpc_text_copy(cut, size, text);
    if (strlen(cut) >= size || rpc_text(&arena, cut) != cut)
        abort();
    sonde_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    size_t half = size / 2;
    try_tokens((struct sonde_slice){text, half}, (struct sonde_slice){text + half, size - half});
    try_text(text);
    free(text);
    return 0;
}
