/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers that the route table names, one file per subject, and the rows' own settings. Each
 * is given a visit whose access, method, size and target choice are checked, and either answers or
 * starts an exchange. */
#ifndef SONDE_GATEWAY_HANDLERS_H
#define SONDE_GATEWAY_HANDLERS_H

#include "gateway/gateway.h"

/* How a path sends profiles. */
enum {
    PROFILE_NEGOTIATES = 1, /* no `output=`: the client's headers decide */
    PROFILE_IS_FILE = 2,    /* Content-Disposition, named cpu_profile */
    PROFILE_GZIP_BODY = 4,  /* pprof is a gzip file, without Content-Encoding */
    PROFILE_STRICT =
        8, /* a bad or doubled output= is answered as query strings that do not parse */
};

struct profile_setup {
    uint32_t seconds; /* the path's own default */
    int format;       /* sonde.v1.Format, unless the client's headers decide */
    unsigned flags;
};

/* capture.c */
void handle_profile(struct visit *visit);
/* julia.c */
void handle_julia_profile(struct visit *visit);
void handle_julia_start(struct visit *visit);
void handle_julia_stop(struct visit *visit);
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
