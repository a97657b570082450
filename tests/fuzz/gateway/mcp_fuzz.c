/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/message.h"
#include "gateway/mcp/text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char word[] = "feedfacecafebeef";

/* Whatever the data is, it is one JSON string of a bounded size whose fence closes once. */
static void check_text(const char *data, size_t size) {
    static const char close[] = "\\u003c/data feedfacecafebeef\\u003e";
    struct mcp_text text = {0};
    struct sonde_buf json = {0};
    mcp_text_add(&text, data, size);
    mcp_text_write(&text, word, &json);
    const char *end = size ? strstr(json.data, close) : NULL;
    if (json.failed || json.len > MCP_TEXT_BYTES || json.data[0] != '"' ||
        json.data[json.len - 1] != '"' || memchr(json.data, '\n', json.len))
        __builtin_trap();
    if (size && (!end || (!memmem(data, size, word, strlen(word)) && strstr(end + 1, close))))
        __builtin_trap();
    sonde_buf_finish(&json);
    mcp_text_finish(&text);
}

/* A message is read or refused with a sentence. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mcp_message message;
    const char *problem = NULL;
    enum mcp_code code =
        mcp_message_read((struct sonde_slice){(const char *)data, size}, &message, &problem);
    if (code && !*problem)
        __builtin_trap();
    if ((message.id && strlen(message.id) > MCP_MAX_ID) ||
        message.arguments.count > MCP_MAX_ARGUMENTS)
        __builtin_trap();
    mcp_message_finish(&message);
    check_text((const char *)data, size);
    return 0;
}
