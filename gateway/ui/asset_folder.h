/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of another program's page (speedscope) that the gateway serves beside its own: read into
 * memory once, before the gateway gives up its rights. Only regular files are read, directly in the
 * folder and with names of letters, digits and ._-; others are left out. Thread safety: any thread,
 * after it was read. */
#ifndef SONDE_GATEWAY_UI_ASSET_FOLDER_H
#define SONDE_GATEWAY_UI_ASSET_FOLDER_H

#include "api/error.h"
#include "gateway/ui/assets.h"

#define ASSET_FOLDER_FILES 64
#define ASSET_FOLDER_BYTES (32u << 20)

struct asset_folder {
    struct ui_asset *items;
    size_t count;
};

/* SONDE_NOT_FOUND: there is no such folder, or it has no index.html. SONDE_TOO_LARGE: more than the
 * bounds above. SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err asset_folder_read(const char *path, struct asset_folder *folder,
                                           struct sonde_diag *diag);
void asset_folder_finish(struct asset_folder *folder); /* zeroed memory is fine */
/* NULL if there is no such file; "" means index.html. */
const struct ui_asset *asset_folder_find(const struct asset_folder *folder,
                                         struct sonde_slice name);

#endif
