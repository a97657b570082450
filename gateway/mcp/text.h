/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a tool's answer, which a language model reads. Everything that comes from a profiled
 * machine (names of functions, processes and labels, and sentences with such names) is between two
 * lines with a random word that no name can know, so that text which looks like an instruction is
 * recognised as data:
 *
 *     Capture 7: 495 samples in 5.0 s, 0 dropped.
 *     <data 5f0c2a91>
 *     ...
 *     </data 5f0c2a91>
 *
 * An answer has at most MCP_TEXT_BYTES bytes, as JSON. Thread safety: one thread at a time. */
#ifndef SONDE_GATEWAY_MCP_TEXT_H
#define SONDE_GATEWAY_MCP_TEXT_H

#include "api/bytes.h"

#define MCP_TEXT_BYTES  8192
#define MCP_LINE_BYTES  400
#define MCP_WORD_SIZE   17
#define MCP_KEPT_BYTES  (64u << 10) /* of data; the rest is only counted */
#define MCP_NOTICE_SIZE 400         /* reserved for the lines around the data */

/* Zeroed memory is an empty text. */
struct mcp_text {
    struct sonde_buf head; /* Sonde's own words and numbers, at most 2 KiB */
    struct sonde_buf data; /* from outside, in lines */
    struct sonde_buf tail; /* Sonde's own words after the data, at most 1 KiB */
    size_t lost_lines;     /* of data that was not kept */
};

/* Appends to the data. Lines end with '\n'. */
void mcp_text_add(struct mcp_text *text, const char *bytes, size_t len);
void mcp_text_puts(struct mcp_text *text, const char *string);
/* One field of a line: characters that change a terminal's state, line ends among them, become
 * spaces, and invisible ones "\u{200b}"; longer names are cut at `most` bytes. */
void mcp_text_put_name(struct mcp_text *text, const char *name, size_t most);
/* Appends the text as a JSON string to out. `word` is random. */
void mcp_text_write(const struct mcp_text *text, const char word[MCP_WORD_SIZE],
                    struct sonde_buf *out);
void mcp_text_finish(struct mcp_text *text);
/* A random word of 16 hexadecimal digits. The process ends if the kernel has none. */
void mcp_text_word(char word[MCP_WORD_SIZE]);

#endif
