/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix of the paths of a listed target: what a client puts in front of /debug/pprof/profile.
 * Thread safety: any thread. */
#ifndef SONDE_GATEWAY_REPLY_TARGET_PATH_H
#define SONDE_GATEWAY_REPLY_TARGET_PATH_H

#include "api/bytes.h"
#include "proto/sonde/v1/profiler.pb-c.h"

/* Appends "/t/<name>" if that path finds the target, otherwise "/t/<pid>". `target` is one of the
 * list. */
void target_path_append(struct sonde_buf *out, const Sonde__V1__ListTargetsResponse *list,
                        const Sonde__V1__Target *target);

#endif
