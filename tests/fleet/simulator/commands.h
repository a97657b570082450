/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's commands: one per line of stdin, answered by a line that begins with "ok" or
 * "error". HOSTS is "all", a number, or FIRST-LAST.
 *
 *     advance SECONDS          simulated time passes; windows are recorded and sent
 *     truth PATH               writes truth.h's sums as JSON
 *     status                   JSON: calls, kept windows, messages, bytes
 *     kill HOSTS               restarts: kept windows are lost, a new epoch begins
 *     step HOSTS SECONDS       steps the clock
 *     slow HOSTS MS            pauses between messages, in both directions; 0 = not
 *     stall HOSTS 0|1          neither reads nor sends
 *     down HOSTS 0|1           ends the call and refuses others
 *     disconnect HOSTS 0       ends the call
 *     repeat HOSTS 0           sends what is not acknowledged again, on the same call
 *     garbage HOSTS 0          sends a window of a process that was not defined
 *     keep HOSTS BYTES         memory for kept windows
 *     lose HOSTS 0             a window vanishes; the truth does not say so
 *     double HOSTS 0           a window counts twice; the truth does not say so
 *
 * Thread safety: one thread. */
#ifndef SONDE_TESTS_FLEET_SIMULATOR_COMMANDS_H
#define SONDE_TESTS_FLEET_SIMULATOR_COMMANDS_H

#include "tests/fleet/simulator/serve.h"

/* Reads what stdin has, and runs whole lines; false at its end. */
bool commands_read(struct serve *serve);

#endif
