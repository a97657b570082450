/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a function for the command line, which may not link the symbol store. It runs the
 * service's own program with ANNOTATE_ARGUMENT as its first argument, as the user who asks, so the
 * files are opened with that user's rights. The process shares the tables of the user's data
 * directory, needs no running service, and ends with the answer. Main thread only. */
#ifndef SONDE_SERVICE_RPC_ANNOTATE_ANNOTATE_MAIN_H
#define SONDE_SERVICE_RPC_ANNOTATE_ANNOTATE_MAIN_H

#define ANNOTATE_ARGUMENT "--annotate"

/* Call it first in main. If the arguments ask for it, reads a packed GetCodeRequest from stdin,
 * writes a packed Code to stdout, and exits with a sonde_err, whose sentence is on stderr.
 * Otherwise returns. */
void annotate_main(int argc, char **argv);

#endif
