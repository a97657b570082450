/* SPDX-License-Identifier: Apache-2.0
 *
 * The Content-Security-Policy of Sonde's pictures: it allows the one script and the one style that
 * api/draw embeds, by hash, and nothing else. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REPLY_SVG_POLICY_H
#define SONDE_GATEWAY_REPLY_SVG_POLICY_H

#include <stddef.h>

/* Writes the policy with a NUL; 512 bytes are enough. */
void svg_policy_write(char *text, size_t size);

#endif
