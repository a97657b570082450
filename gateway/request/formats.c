/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/formats.h"

#include "proto/sonde/v1/profiler.pb-c.h"

#define BINARY   "application/octet-stream"
#define TEXT     "text/plain; charset=utf-8"
#define SVG      "image/svg+xml"
#define JSON     "application/json"
#define MARKDOWN "text/markdown; charset=utf-8"
#define ALL      (FORMATS_CPU | FORMATS_ALLOCATIONS | FORMATS_HEAP)

/* A format's first row has its own name; "text" is an alias. */
static const struct format_info table[] = {
    {"proto", SONDE__V1__FORMAT__PPROF, BINARY, true, ALL},
    {"flamegraph", SONDE__V1__FORMAT__SVG_FLAMEGRAPH, SVG, true, ALL},
    {"callgraph", SONDE__V1__FORMAT__SVG_CALLGRAPH, SVG, true, ALL},
    {"collapsed", SONDE__V1__FORMAT__COLLAPSED, TEXT, false, ALL},
    {"speedscope", SONDE__V1__FORMAT__SPEEDSCOPE, JSON, true, ALL},
    {"top", SONDE__V1__FORMAT__TEXT_TOP, TEXT, false, ALL},
    {"jemalloc", SONDE__V1__FORMAT__JEMALLOC, BINARY, true, FORMATS_HEAP},
    {"legacy", SONDE__V1__FORMAT__LEGACY_CPU, BINARY, true, FORMATS_CPU},
    {"legacy", SONDE__V1__FORMAT__LEGACY_HEAP, BINARY, true, FORMATS_HEAP},
    {"heapsnapshot", SONDE__V1__FORMAT__HEAPSNAPSHOT, JSON, true, FORMATS_HEAP},
    {"heapprofile", SONDE__V1__FORMAT__HEAPPROFILE, JSON, true, FORMATS_HEAP},
    {"firefox", SONDE__V1__FORMAT__FIREFOX, JSON, true, ALL},
    {"md", SONDE__V1__FORMAT__MARKDOWN, MARKDOWN, false, ALL},
    {"grafana", SONDE__V1__FORMAT__GRAFANA, JSON, true, ALL},
    {"deepflow", SONDE__V1__FORMAT__DEEPFLOW_TREE, JSON, true, ALL},
    {"deepflow-columnar", SONDE__V1__FORMAT__DEEPFLOW_COLUMNAR, JSON, true, ALL},
    {"flamebearer", SONDE__V1__FORMAT__FLAMEBEARER, JSON, true, ALL},
    {"text", SONDE__V1__FORMAT__JEMALLOC, BINARY, true, FORMATS_HEAP},
    {"text", SONDE__V1__FORMAT__COLLAPSED, TEXT, false, FORMATS_CPU | FORMATS_ALLOCATIONS},
};

#define COUNT (sizeof table / sizeof table[0])

const struct format_info *format_table(size_t *count) {
    *count = COUNT;
    return table;
}

const struct format_info *format_find(struct sonde_slice output, enum format_family family) {
    for (size_t i = 0; i < COUNT; i++)
        if ((table[i].offered & family) && sonde_slice_equals(output, table[i].output))
            return &table[i];
    return NULL;
}

const struct format_info *format_of(int format) {
    for (size_t i = 0; i < COUNT; i++)
        if (table[i].format == format)
            return &table[i];
    return NULL;
}

void format_append_list(struct sonde_buf *out, enum format_family family) {
    bool first = true;
    for (size_t i = 0; i < COUNT; i++) {
        if (!(table[i].offered & family))
            continue;
        sonde_buf_printf(out, "%s%s", first ? "" : ", ", table[i].output);
        first = false;
    }
}
