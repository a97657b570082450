/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is only a worker, for tests and benches. */
#include "service/symbol/debuginfod/debuginfod.h"
#include "service/symbol/worker/worker.h"

int main(int argc, char **argv) {
    return symbol_fetch_is_asked(argc, argv) ? symbol_fetch_main(argc, argv)
                                             : symbol_worker_main(argc, argv);
}
