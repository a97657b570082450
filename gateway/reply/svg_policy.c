/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/svg_policy.h"

#include "api/draw/draw.h"

#include <stdio.h>

void svg_policy_write(char *text, size_t size) {
    snprintf(
        text, size,
        "default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'",
        sonde_draw_svg_script_hash(), sonde_draw_svg_style_hash());
}
