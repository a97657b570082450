/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the lists of all sources. If several sources list a host, the first one's entry counts. If
 * an earlier source uses a host's name for another address, the host is named by its own address.
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

/* Lists are in the order of their sources; NULL = that source has none. left_out[i] is the number
 * of hosts of list i beyond DISCOVERY_MAX_HOSTS. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err merge_hosts(struct host_list *const *lists, size_t count,
                                     struct merged_hosts *merged, size_t *left_out);
void merged_hosts_finish(struct merged_hosts *merged); /* zeroed memory is fine */

#endif
