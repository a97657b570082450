/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is nothing but the converter's worker, for tests and benches. */
#include "service/symbol/worker.h"

int main(int argc, char **argv) {
    return symbol_worker_main(argc, argv);
}
