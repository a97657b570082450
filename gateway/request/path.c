/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/path.h"

#include "api/text/utf8.h"
#include "gateway/request/query.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENT ((PATH_MAX_NAME + 5) * 3) /* every byte percent-encoded, after "@all:" */

bool path_is_name(struct sonde_slice name) {
    return name.len > 0 && name.len <= PATH_MAX_NAME && !memchr(name.data, 0, name.len) &&
           sonde_utf8_is_valid(name.data, name.len);
}

static bool all_digits(struct sonde_slice text) {
    for (size_t i = 0; i < text.len; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return text.len > 0;
}

bool path_is_pid(struct sonde_slice text, int32_t *pid) {
    if (!all_digits(text))
        return false;
    int64_t number = 0;
    for (size_t i = 0; i < text.len && number <= INT32_MAX; i++)
        number = number * 10 + (text.data[i] - '0');
    *pid = (int32_t)(number <= INT32_MAX ? number : 0);
    return *pid > 0;
}

static bool copy_name(struct sonde_slice name, struct target_choice *target) {
    if (!path_is_name(name))
        return false;
    memcpy(target->name, name.data, name.len);
    target->name[name.len] = 0;
    return true;
}

/* No guest's name begins with '@'. */
bool path_read_name(struct sonde_slice text, struct target_choice *target) {
    static const char all[] = "@all";
    size_t len = sizeof all - 1;
    *target = (struct target_choice){.all = sonde_slice_equals(text, all)};
    if (target->all)
        return true;
    if (text.len <= len || memcmp(text.data, "@all:", len + 1) != 0)
        return copy_name(text, target);
    struct sonde_slice rest = {text.data + len + 1, text.len - len - 1};
    target->all = true;
    return all_digits(rest) ? path_is_pid(rest, &target->pid) : copy_name(rest, target);
}

static bool read_segment(struct sonde_slice segment, struct target_choice *target) {
    char decoded[MAX_SEGMENT];
    if (segment.len > MAX_SEGMENT)
        return false;
    struct sonde_slice name = {decoded, query_decode_path(segment, decoded)};
    if (all_digits(name))
        return path_is_pid(name, &target->pid);
    return path_read_name(name, target);
}

bool path_split(struct sonde_slice path, struct path_parts *parts) {
    *parts = (struct path_parts){.prefix = {path.data, 0}, .rest = path};
    if (path.len < 3 || memcmp(path.data, "/t/", 3) != 0)
        return true;
    const char *slash = memchr(path.data + 3, '/', path.len - 3);
    size_t end = slash ? (size_t)(slash - path.data) : path.len;
    parts->prefix.len = end;
    parts->rest = (struct sonde_slice){path.data + end, path.len - end};
    if (parts->rest.len == 0)
        parts->rest = sonde_slice_of("/");
    parts->named = true;
    return read_segment((struct sonde_slice){path.data + 3, end - 3}, &parts->target);
}

void path_append_encoded(struct sonde_buf *out, struct sonde_slice name) {
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.data[i];
        if (isalnum(byte) || memchr("-._~", byte, 4))
            sonde_buf_putc(out, (char)byte);
        else
            sonde_buf_printf(out, "%%%02X", byte);
    }
}

void path_append_target(struct sonde_buf *out, const struct target_choice *target) {
    bool is_one = target->pid || target->name[0];
    if (target->all)
        sonde_buf_puts(out, is_one ? "@all:" : "@all");
    if (target->pid)
        sonde_buf_printf(out, "%d", target->pid);
    else
        path_append_encoded(out, sonde_slice_of(target->name));
}
