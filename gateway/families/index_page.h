/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the list of links: HTML for browsers, plain text for other clients. It lists the
 * route table's rows. The only part of a request in it is the target's prefix, encoded again, so
 * that links lead to the same target. Names of targets are hostile and escaped. In the loop only.
 */
#ifndef SONDE_GATEWAY_FAMILIES_INDEX_PAGE_H
#define SONDE_GATEWAY_FAMILIES_INDEX_PAGE_H

#include "gateway/gateway.h"
#include "gateway/request/forwarded.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Zeroed, then the first six fields set by the caller. */
struct index_page {
    const struct route *routes;
    size_t route_count;
    bool html;
    bool is_of_many;                          /* the prefix means several processes */
    char prefix[PATH_MAX_NAME * 3 + 16];      /* of links that are about a target; "" = none */
    char base[FORWARDED_PREFIX_SIZE];         /* of all links, behind a proxy; reply_base() */
    struct sonde_buf targets, heap, captures; /* rendered; heap is plain text */
};

/* Each adds one part of the page. A part that is not added is left out. */
void index_page_add_targets(struct index_page *page, const Sonde__V1__ListTargetsResponse *list);
void index_page_add_heap(struct index_page *page, const Sonde__V1__HeapState *state);
void index_page_add_captures(struct index_page *page, const Sonde__V1__ListCapturesResponse *list);

void index_page_write(const struct index_page *page, struct sonde_buf *out);
void index_page_finish(struct index_page *page);

#endif
