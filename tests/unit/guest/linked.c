/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that links libsonde.so. Usage: linked SOCKET. Prints whether the guest was off before
 * the call, and whether two calls of sonde_start returned what they should. */
#include "api/sonde.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_off(void) {
    return strcmp(sonde_status(), "off") == 0;
}

int main(int argc, char **argv) {
    char byte;
    struct sonde_start_options options = {
        .size = sizeof options, .name = "checkout", .socket_path = argc > 1 ? argv[1] : NULL};
    for (int i = 0; getenv("LD_PRELOAD") && is_off() && i < 5000; i++)
        usleep(2000); /* a preloaded guest starts in a thread */
    int off = is_off();
    int first = sonde_start(&options);
    options.name = "too late";
    int second = sonde_start(&options);
    memset(argv[0], 'x', strlen(argv[0])); /* like servers that show their state in ps */
    printf("started %d %d\n", off, first == 0 && second == EALREADY ? 0 : 1);
    fflush(stdout);
    if (read(0, &byte, 1) != 1)
        return 3;
    sonde_stop();
    return 0;
}
