/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds function_times where no history is recorded: a recorder of its own, which samples every
 * target with a guest at 19 Hz and at most 0.5 % of its CPU time. Thread safety: one thread. */
#ifndef SONDE_SERVICE_FUNCTION_TIMES_FUNCTION_RECORDER_H
#define SONDE_SERVICE_FUNCTION_TIMES_FUNCTION_RECORDER_H

#include "service/engine/engine.h"
#include "service/function_times/function_times.h"

#define FUNCTION_RECORDER_HZ        19
#define FUNCTION_RECORDER_WINDOW_MS 2000
#define FUNCTION_RECORDER_OVERHEAD  0.005

struct function_recorder;

/* times must outlive it. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err function_recorder_start(struct engine *engine,
                                                 struct function_times *times,
                                                 struct function_recorder **recorder,
                                                 struct sonde_diag *diag);
/* Before engine_destroy. NULL is fine. */
void function_recorder_finish(struct function_recorder *recorder);
/* After engine_destroy. NULL is fine. */
void function_recorder_destroy(struct function_recorder *recorder);

#endif
