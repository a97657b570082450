/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/match_names.h"

#include "api/text/maps_line.h"

#include <ctype.h>
#include <string.h>

/* ---- Files ---- */

struct sonde_slice match_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    return (struct sonde_slice){name, sonde_maps_path_len(name, strlen(name))};
}

/* The place of ".so" before a '.' or the end; the length if there is none. */
static size_t find_so(struct sonde_slice name) {
    for (size_t i = 1; i + 3 <= name.len; i++)
        if (memcmp(name.data + i, ".so", 3) == 0 && (i + 3 == name.len || name.data[i + 3] == '.'))
            return i;
    return name.len;
}

/* "libX11" keeps its number: a version has a dot in it or a hyphen before it. */
static size_t without_version(struct sonde_slice name) {
    size_t start = name.len;
    bool has_dot = false;
    while (start > 0 &&
           (isdigit((unsigned char)name.data[start - 1]) || name.data[start - 1] == '.'))
        has_dot |= name.data[--start] == '.';
    if (start == name.len || start == 0)
        return name.len;
    if (name.data[start - 1] == '-')
        return start > 1 ? start - 1 : name.len;
    return has_dot ? start : name.len;
}

struct sonde_slice match_library(const char *path) {
    struct sonde_slice name = match_file_name(path);
    name.len = find_so(name);
    name.len = without_version(name);
    return name;
}

/* ---- Functions ---- */

#define RUST_HASH 19 /* "::h" and 16 hexadecimal digits */

static bool ends_in_rust_hash(const char *name, size_t len) {
    if (len <= RUST_HASH || memcmp(name + len - RUST_HASH, "::h", 3) != 0)
        return false;
    return strspn(name + len - RUST_HASH + 3, "0123456789abcdef") == RUST_HASH - 3;
}

struct sonde_slice match_function(const char *name) {
    static const char *const marks[] = {" [clone ", ".isra.", ".constprop.", ".part.",
                                        ".cold",    ".llvm.", ".lto_priv."};
    size_t len = strlen(name);
    if (ends_in_rust_hash(name, len))
        return (struct sonde_slice){name, len - RUST_HASH};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *mark = strstr(name, marks[i]);
        if (mark && mark != name && (size_t)(mark - name) < len)
            len = (size_t)(mark - name);
    }
    return (struct sonde_slice){name, len};
}

/* ---- The table ---- */

struct row {
    struct sonde_slice key;
    const char *name;
};

static bool equal_row(const void *context, const void *item, const void *key) {
    const struct row *row = item;
    const struct sonde_slice *wanted = key;
    return row->key.len == wanted->len && memcmp(row->key.data, wanted->data, wanted->len) == 0;
}

static const struct row *find(const struct match_names *names, struct sonde_slice key) {
    uint32_t hash = hash_index_data(&names->table.index, key.data, key.len);
    uint32_t number = profile_table_find(&names->table, hash, equal_row, NULL, &key);
    return number == PROFILE_TABLE_NONE ? NULL : profile_table_item(&names->table, number);
}

static sonde_err add(struct match_names *names, struct sonde_slice key, const char *name) {
    if (find(names, key))
        return SONDE_OK;
    struct row *row =
        profile_table_add(&names->table, hash_index_data(&names->table.index, key.data, key.len));
    if (!row)
        return SONDE_OUT_OF_MEMORY;
    *row = (struct row){key, name};
    return SONDE_OK;
}

static const char *name_of(const struct sonde_profile *profile, uint32_t id) {
    return sonde_profile_text(profile, sonde_profile_function(profile, id)->name);
}

/* Whole names first, so that a function is never taken for a variant of another one. */
sonde_err match_names_init(struct match_names *names, const struct sonde_profile *profile) {
    size_t count = sonde_profile_function_count(profile);
    sonde_err err = SONDE_OK;
    profile_table_init(&names->table, sizeof(struct row));
    for (uint32_t id = 1; id <= count && !err; id++)
        err = add(names, sonde_slice_of(name_of(profile, id)), name_of(profile, id));
    for (uint32_t id = 1; id <= count && !err; id++)
        err = add(names, match_function(name_of(profile, id)), name_of(profile, id));
    return err;
}

void match_names_finish(struct match_names *names) {
    profile_table_finish(&names->table);
}

const char *match_names_find(const struct match_names *names, const char *name) {
    const struct row *row = find(names, sonde_slice_of(name));
    if (!row)
        row = find(names, match_function(name));
    return row ? row->name : name;
}
