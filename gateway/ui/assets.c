/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ui/assets.h"

const struct ui_asset *ui_asset_find(struct sonde_slice name) {
    for (size_t i = 0; i < ui_asset_count; i++)
        if (sonde_slice_equals(name, ui_assets[i].name))
            return &ui_assets[i];
    return NULL;
}
