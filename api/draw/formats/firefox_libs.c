/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/formats/firefox.h"
#include "api/draw/render.h"

#include <string.h>

#define GUID_SIZE 16

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool equal_text(const void *context, const void *item, const void *key) {
    const struct firefox_text *text = item;
    return strcmp(text->text, key) == 0;
}

void firefox_texts_init(struct firefox_texts *texts) {
    profile_table_init(&texts->table, sizeof(struct firefox_text));
}

void firefox_texts_finish(struct firefox_texts *texts) {
    profile_table_finish(&texts->table);
}

uint32_t firefox_texts_find(const struct firefox_texts *texts, const char *text) {
    uint32_t hash = hash_index_data(&texts->table.index, text, strlen(text));
    return profile_table_find(&texts->table, hash, equal_text, NULL, text);
}

uint32_t firefox_texts_add(struct firefox_texts *texts, const char *text, uint32_t value) {
    uint32_t number = firefox_texts_find(texts, text);
    if (number != PROFILE_TABLE_NONE)
        return number;
    uint32_t hash = hash_index_data(&texts->table.index, text, strlen(text));
    struct firefox_text *added = profile_table_add(&texts->table, hash);
    if (!added)
        return PROFILE_TABLE_NONE;
    *added = (struct firefox_text){text, value};
    return texts->table.count - 1;
}

const struct firefox_text *firefox_texts_get(const struct firefox_texts *texts, uint32_t number) {
    return profile_table_item(&texts->table, number);
}

void firefox_texts_put(const struct firefox_texts *texts, struct sonde_buf *out) {
    for (uint32_t i = 0; i < texts->table.count; i++) {
        sonde_buf_putc(out, i ? ',' : '[');
        draw_json(out, firefox_texts_get(texts, i)->text);
    }
    sonde_buf_puts(out, texts->table.count ? "]" : "[]");
}

sonde_err firefox_libs_fill(struct firefox_texts *libs, const struct sonde_profile *profile) {
    for (uint32_t id = 1; id <= sonde_profile_mapping_count(profile); id++) {
        const struct sonde_mapping *mapping = sonde_profile_mapping(profile, id);
        const char *name = base_name(sonde_profile_text(profile, mapping->filename));
        if (name[0] && firefox_texts_add(libs, name, id) == PROFILE_TABLE_NONE)
            return SONDE_OUT_OF_MEMORY;
    }
    return SONDE_OK;
}

static int digit(char byte) {
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Breakpad's id: the first 16 bytes of the build-id as a GUID, whose first three fields are written
 * as little-endian numbers, and the age 0. */
static void put_breakpad_id(struct sonde_buf *out, const char *build_id) {
    static const unsigned char order[GUID_SIZE] = {3, 2, 1,  0,  5,  4,  7,  6,
                                                   8, 9, 10, 11, 12, 13, 14, 15};
    unsigned char bytes[GUID_SIZE] = {0};
    for (size_t i = 0; i < GUID_SIZE && build_id[2 * i] && build_id[2 * i + 1]; i++) {
        int high = digit(build_id[2 * i]), low = digit(build_id[2 * i + 1]);
        if (high < 0 || low < 0)
            break;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    for (size_t i = 0; i < GUID_SIZE; i++)
        sonde_buf_printf(out, "%02X", bytes[order[i]]);
    sonde_buf_putc(out, '0');
}

static void put_lib(struct sonde_buf *out, const char *path, const char *build_id) {
    static const char *const names[] = {"name", "debugName"}, *const paths[] = {"path",
                                                                                "debugPath"};
    sonde_buf_puts(out, "{\"arch\":null");
    for (int i = 0; i < 2; i++) {
        sonde_buf_printf(out, ",\"%s\":", names[i]);
        draw_json(out, base_name(path));
        sonde_buf_printf(out, ",\"%s\":", paths[i]);
        draw_json(out, path);
    }
    sonde_buf_puts(out, ",\"breakpadId\":\"");
    put_breakpad_id(out, build_id);
    sonde_buf_puts(out, "\",\"codeId\":");
    if (build_id[0])
        draw_json(out, build_id);
    else
        sonde_buf_puts(out, "null");
    sonde_buf_putc(out, '}');
}

void firefox_libs_put(const struct firefox_texts *libs, const struct sonde_profile *profile,
                      struct sonde_buf *out) {
    sonde_buf_puts(out, "\"libs\":[");
    for (uint32_t i = 0; i < libs->table.count; i++) {
        const struct sonde_mapping *mapping =
            sonde_profile_mapping(profile, firefox_texts_get(libs, i)->value);
        sonde_buf_puts(out, i ? ",\n" : "\n");
        put_lib(out, sonde_profile_text(profile, mapping->filename),
                sonde_profile_text(profile, mapping->build_id));
    }
    sonde_buf_puts(out, "]");
}
