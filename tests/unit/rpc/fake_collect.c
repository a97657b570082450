/* SPDX-License-Identifier: Apache-2.0
 *
 * No sessions: servers with the fake engine have no `collect`, so that these are never called. */
#include "service/collect/collect.h"

#include <stdlib.h>

sonde_err collect_open(struct collect *collect, const Sonde__V1__CollectRequest *start,
                       void (*wake)(void *context), void *context, struct collect_link **link,
                       struct sonde_diag *diag) {
    abort();
}

sonde_err collect_receive(struct collect_link *link, const Sonde__V1__CollectRequest *request,
                          struct sonde_diag *diag) {
    abort();
}

sonde_err collect_next(struct collect_link *link, int64_t now_ns, struct sonde_buf *answer,
                       bool *is_empty, struct sonde_diag *diag) {
    abort();
}

void collect_close(struct collect_link *link) {
    abort();
}

size_t collect_sessions(struct collect *collect, struct sonde_arena *arena,
                        Sonde__V1__CollectSession *sessions, size_t capacity) {
    abort();
}
