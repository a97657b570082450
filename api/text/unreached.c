/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/unreached.h"

#include <stdio.h>

static const char *const sentences[] = {
    [UNREACHED_NO_ADDRESS] = "has no address; check the name and this machine's resolver",
    [UNREACHED_NO_RESOLVER] =
        "cannot be looked up, because no name server answers; check /etc/resolv.conf",
    [UNREACHED_REFUSED] = "accepts no connection; check the address, and that a server runs there",
    [UNREACHED_SILENT] = "does not answer connections; check the address and the firewall",
    [UNREACHED_CERTIFICATE] = "is not trusted; check its certificate, its name and the CA file",
    [UNREACHED_NO_ANSWER] = "did not answer in time; check its load",
    [UNREACHED_BROKEN] = "ended the connection; check its log and what is in front of it",
};

const char *unreached_text(enum unreached why, const char *server, char *text, size_t size) {
    snprintf(text, size, "%.120s %s", server, sentences[why]);
    return text;
}
