/* SPDX-License-Identifier: Apache-2.0
 *
 * The index as it is drawn: a page for browsers, text for everybody else. Its rows are the route
 * table's. Of the request only the target's prefix comes back, re-encoded, so that links keep the
 * target; names of targets are hostile and escaped. In the loop only. */
#ifndef SONDE_GATEWAY_FAMILIES_INDEX_PAGE_H
#define SONDE_GATEWAY_FAMILIES_INDEX_PAGE_H

#include "api/bytes.h"
#include "gateway/request/path.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Zeroed, with html and prefix set. What is not told of is left out. */
struct index_page {
    bool html;
    char prefix[PATH_MAX_NAME * 3 + 8]; /* of every link about a target; "" = none */
    struct sonde_buf targets;           /* drawn, as are the captures */
    struct sonde_buf heap;              /* its sentence */
    struct sonde_buf kept;
};

void index_page_tell_targets(struct index_page *page, const Sonde__V1__ListTargetsResponse *list);
/* What works now, and for what is off the line that turns it on. */
void index_page_tell_heap(struct index_page *page, const Sonde__V1__HeapState *state);
/* The newest of them. */
void index_page_tell_captures(struct index_page *page, const Sonde__V1__ListCapturesResponse *list);

void index_page_write(const struct index_page *page, struct sonde_buf *out);
void index_page_finish(struct index_page *page);

#endif
