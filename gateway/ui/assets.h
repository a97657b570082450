/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the page, embedded in the program by embed.py. They are the same for everybody and
 * contain no data. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_UI_ASSETS_H
#define SONDE_GATEWAY_UI_ASSETS_H

#include "api/bytes.h"

struct ui_asset {
    const char *name, *media_type;
    const char *etag; /* W/"...", because the compressed bytes have the same */
    struct sonde_slice bytes;
};

/* In alphabetical order; generated. */
extern const struct ui_asset ui_assets[];
extern const size_t ui_asset_count;

/* NULL if there is no such file. */
const struct ui_asset *ui_asset_find(struct sonde_slice name);

#endif
