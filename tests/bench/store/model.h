/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic recordings of one host: 60 services with 2 processes each and 8,000 stacks per service
 * (Zipf 1.05 for services and stacks), 30 frames on average, 8 thread pools. The same seed makes
 * the same data. */
#ifndef SONDE_TESTS_BENCH_STORE_MODEL_H
#define SONDE_TESTS_BENCH_STORE_MODEL_H

#include "service/store/store.h"

#define MODEL_SERVICES  60
#define MODEL_PROCESSES (2 * MODEL_SERVICES)
#define MODEL_STACKS    8000 /* per service */
#define MODEL_FUNCTIONS 4096 /* per service */
#define MODEL_THREADS   8
#define MODEL_TASKS     200 /* threads with CPU time per interval, for the totals */
#define MODEL_PERIOD_NS 52631578
#define MODEL_BEGIN     1699999200 /* the begin of an hour */

struct model;

struct model *model_create(uint32_t samples_per_s);
void model_destroy(struct model *model);
/* The stacks and frames of one service. Borrowed. */
struct store_batch model_names(struct model *model, int service);
/* Windows of all processes, and totals, of length_s seconds from begin. Valid until the next call.
 */
struct store_batch model_interval(struct model *model, int64_t begin, uint32_t length_s);

#endif
