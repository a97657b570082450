/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers that the route table names, one file per subject, and the rows' own settings. Each
 * is given a visit whose access, method, size and target choice are checked, and either answers or
 * starts a relay. */
#ifndef SONDE_GATEWAY_HANDLERS_H
#define SONDE_GATEWAY_HANDLERS_H

#include "gateway/gateway.h"
#include "gateway/request/formats.h"

/* How a path sends profiles. */
enum {
    PROFILE_NEGOTIATES = 1, /* no `output=`: the client's headers decide */
    PROFILE_GZIP_BODY = 2,  /* pprof is a gzip file, without Content-Encoding */
    PROFILE_STRICT = 4, /* a bad or doubled output= is answered as a query that does not parse */
};

struct profile_setup {
    uint32_t seconds; /* the path's own default */
    int format;       /* sonde.v1.Format, unless the client's headers decide */
    unsigned flags;
    enum format_family offered; /* what `output=` may ask for */
    const char *file;           /* its name in Content-Disposition; NULL = none is sent */
};

/* capture.c */
void handle_profile(struct visit *visit);
/* julia.c */
void handle_julia_profile(struct visit *visit);
void handle_julia_start(struct visit *visit);
void handle_julia_stop(struct visit *visit);
/* allocs.c */
void handle_allocs(struct visit *visit);
void handle_julia_allocs(struct visit *visit);
void handle_julia_allocs_start(struct visit *visit);
void handle_julia_allocs_stop(struct visit *visit);
/* heap.c */
void handle_heap_activate(struct visit *visit);
void handle_heap_deactivate(struct visit *visit);
void handle_heap_list(struct visit *visit);
/* heap_profile.c */
void handle_heap_profile(struct visit *visit);
void handle_heap_snapshot(struct visit *visit);
/* prof_mem.c */
void handle_mem_dump(struct visit *visit);
void handle_mem_status(struct visit *visit);
void handle_mem_activate(struct visit *visit);
void handle_mem_deactivate(struct visit *visit);
void handle_mem_gdump(struct visit *visit);
/* v1_heap.c */
void handle_v1_heap(struct visit *visit);
/* captures.c */
void handle_v1_captures(struct visit *visit);
/* capture_view.c */
void handle_v1_capture(struct visit *visit);
void handle_v1_diff(struct visit *visit);
/* threads.c */
void handle_task_backtraces(struct visit *visit);
/* live.c */
void handle_cpu_live(struct visit *visit);
/* metrics.c */
void handle_metrics(struct visit *visit);
/* symbol.c */
void handle_symbol(struct visit *visit);
/* cmdline.c */
void handle_cmdline(struct visit *visit);
/* index.c */
void handle_index(struct visit *visit);
void handle_style(struct visit *visit);
/* info.c */
void handle_targets(struct visit *visit);
void handle_info(struct visit *visit);
void handle_healthz(struct visit *visit);
void handle_readyz(struct visit *visit);
void handle_openapi(struct visit *visit);
void handle_no_store(struct visit *visit);

#endif
