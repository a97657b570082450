/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/port.h"

#include <stdlib.h>
#include <string.h>

bool sonde_port_read(const char *digits, unsigned *port) {
    size_t len = strspn(digits, "0123456789");
    if (len == 0 || len > 5 || digits[len] != 0)
        return false;
    *port = (unsigned)strtoul(digits, NULL, 10);
    return *port <= 65535;
}
