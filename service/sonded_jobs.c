/* SPDX-License-Identifier: Apache-2.0 */
#include "service/sonded_jobs.h"

#include "service/engine/perf_data/perf_data.h"
#include "service/engine/unwind_check/check_worker.h"
#include "service/rpc/annotate/annotate_main.h"
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/worker/worker.h"

#include <stdlib.h>

void sonded_jobs(int argc, char **argv) {
    if (symbol_worker_is_asked(argc, argv))
        exit(symbol_worker_main(argc, argv));
    if (check_worker_is_asked(argc, argv))
        exit(check_worker_main());
    if (symbol_fetch_is_asked(argc, argv))
        exit(symbol_fetch_main(argc, argv));
    perf_data_main(argc, argv);
    annotate_main(argc, argv);
}
