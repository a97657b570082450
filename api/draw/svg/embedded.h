/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of flamegraph.js and flamegraph.css, compiled in by embed.py. Internal to api/draw.
 */
#ifndef SONDE_API_DRAW_SVG_EMBEDDED_H
#define SONDE_API_DRAW_SVG_EMBEDDED_H

#include <stddef.h>

extern const char draw_script[], draw_script_hash[];
extern const char draw_style[], draw_style_hash[];
extern const size_t draw_script_len, draw_style_len;

#endif
