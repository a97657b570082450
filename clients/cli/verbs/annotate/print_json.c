/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json/json.h"
#include "clients/cli/verbs/annotate/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_string(struct sonde_buf *out, const char *name, const char *text) {
    sonde_buf_printf(out, "\"%s\":", name);
    sonde_json_string(out, sonde_slice_of(text));
}

static void put_counts(struct sonde_buf *out, const struct view *view,
                       const struct view_counts *counts) {
    sonde_buf_printf(out, "\"self\":%.9g,\"total\":%.9g", counts[VIEW_NOW].self,
                     counts[VIEW_NOW].total);
    if (view->has_base)
        sonde_buf_printf(out, ",\"baseSelf\":%.9g,\"baseTotal\":%.9g", counts[VIEW_BASE].self,
                         counts[VIEW_BASE].total);
}

static void put_lines(struct sonde_buf *out, const struct view *view,
                      const struct print_options *options) {
    for (uint32_t i = 0; i < view->place_count; i++) {
        const struct view_place *place = &view->places[i];
        const char *text = source_text_line(options->texts, place->file, place->line);
        sonde_buf_printf(out, "%s{\"parent\":%" PRId64 ",\"line\":%u,", i ? "," : "",
                         place->parent == VIEW_NONE ? (int64_t)-1 : (int64_t)place->parent,
                         place->line);
        put_string(out, "function", place->function);
        sonde_buf_putc(out, ',');
        put_string(out, "file", place->file);
        sonde_buf_putc(out, ',');
        if (text) {
            put_string(out, "text", text);
            sonde_buf_putc(out, ',');
        }
        put_counts(out, view, place->counts);
        sonde_buf_putc(out, '}');
    }
}

static void put_instructions(struct sonde_buf *out, const struct view *view) {
    for (uint32_t i = 0; i < view->instruction_count; i++) {
        const struct view_instruction *item = &view->instructions[i];
        const Sonde__V1__CodeInstruction *code = item->code;
        const ProtobufCEnumValue *kind = protobuf_c_enum_descriptor_get_value(
            &sonde__v1__code_instruction__kind__descriptor, code->kind);
        sonde_buf_printf(out, "%s{\"address\":\"0x%" PRIx64 "\",\"place\":%" PRId64 ",",
                         i ? "," : "", code->address,
                         item->place == VIEW_NONE ? (int64_t)-1 : (int64_t)item->place);
        put_string(out, "text", code->text);
        sonde_buf_printf(out, ",\"kind\":\"%s\",", kind ? kind->name : "PLAIN");
        if (code->target)
            sonde_buf_printf(out, "\"target\":\"0x%" PRIx64 "\",", code->target);
        sonde_buf_printf(out, "\"value\":%" PRId64 ",", item->self[VIEW_NOW]);
        put_counts(out, view, item->counts);
        sonde_buf_putc(out, '}');
    }
}

void print_json(const struct view *view, const struct print_options *options) {
    struct sonde_buf out = {0};
    sonde_buf_putc(&out, '{');
    put_string(&out, "function", view->function);
    if (view->code) {
        sonde_buf_putc(&out, ',');
        put_string(&out, "path", view->code->path);
        sonde_buf_putc(&out, ',');
        put_string(&out, "buildId", view->code->build_id);
    }
    sonde_buf_putc(&out, ',');
    put_counts(&out, view, view->counts);
    sonde_buf_puts(&out, ",\"lines\":[");
    put_lines(&out, view, options);
    sonde_buf_puts(&out, "],\"instructions\":[");
    put_instructions(&out, view);
    sonde_buf_puts(&out, "]}\n");
    if (out.data)
        fwrite(out.data, 1, out.len, stdout);
    sonde_buf_finish(&out);
}
