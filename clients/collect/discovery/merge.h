/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of all sources as one. A host that several sources have is that of the first one. A
 * host whose name an earlier source uses for another address has its address as its name.
 *
 * Thread safety: any thread. */
#ifndef SONDE_CLIENTS_COLLECT_DISCOVERY_MERGE_H
#define SONDE_CLIENTS_COLLECT_DISCOVERY_MERGE_H

#include "clients/collect/discovery/host_list.h"

#define MERGE_DIGEST 32

/* Valid as long as the lists. */
struct merged_hosts {
    struct discovered_hosts list;       /* by name */
    unsigned char digest[MERGE_DIGEST]; /* equal for equal lists, labels included */
};

/* lists: in the order of the sources; NULL = that one has none. left_out[i]: how many hosts of
 * list i are beyond DISCOVERY_MAX_HOSTS. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err merge_hosts(struct host_list *const *lists, size_t count,
                                     struct merged_hosts *merged, size_t *left_out);
void merged_hosts_finish(struct merged_hosts *merged); /* zeroed memory is fine */

#endif
