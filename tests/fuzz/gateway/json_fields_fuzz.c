/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/history/tag_filter.h"
#include "gateway/request/json_fields.h"

#include <string.h>

struct result {
    const char *name, *filter;
    int64_t count;
    bool flag;
};

static const struct json_field fields[] = {
    {"name", JSON_TEXT, true, offsetof(struct result, name)},
    {"filter", JSON_TEXT, false, offsetof(struct result, filter)},
    {"count", JSON_WHOLE, true, offsetof(struct result, count)},
    {"flag", JSON_FLAG, false, offsetof(struct result, flag)},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A body is read or refused with a sentence. A translated filter keeps its length, whatever the
 * labels are called. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct result result = {"", "", 0, false};
    sonde_err err = json_fields_read((struct sonde_slice){(const char *)data, size}, fields,
                                     sizeof fields / sizeof fields[0], &arena, &result, &diag);
    if (err ? !diag.text[0] : !result.name[0] || !result.count)
        __builtin_trap();
    if (!err && result.filter[0]) {
        size_t len = strlen(result.filter);
        char *const names[] = {(char *)(uintptr_t)result.name};
        const struct tag_labels labels = {names, 1};
        err = tag_filter_translate((char *)(uintptr_t)result.filter, result.flag ? &labels : NULL,
                                   &diag);
        if (strlen(result.filter) != len || (err && !diag.text[0]))
            __builtin_trap();
    }
    sonde_arena_finish(&arena);
    return 0;
}
