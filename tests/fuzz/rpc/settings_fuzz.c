/* SPDX-License-Identifier: Apache-2.0
 *
 * The service's small texts: token files with "authorization" headers, and text for answers. (Not
 * addresses: they would be looked up.) */
#include "service/rpc/call.h"
#include "service/rpc/text.h"
#include "service/rpc/tokens.h"

#include <stdlib.h>
#include <string.h>

static void try_tokens(struct sonde_slice file, struct sonde_slice header) {
    struct rpc_tokens *tokens = NULL;
    struct sonde_diag diag = {0};
    if (rpc_tokens_parse(file, &tokens, &diag))
        return;
    if (rpc_tokens_scopes(tokens, header) & ~(unsigned)(RPC_SCOPE_READ | RPC_SCOPE_CONTROL))
        abort();
    rpc_tokens_destroy(tokens);
}

/* Cleaning twice changes nothing more, and a copy fits wherever it is cut. */
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
