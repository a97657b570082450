/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a server was not reached, in words of our own: libraries' texts name neither the server nor
 * what to do. Thread safety: any thread. */
#ifndef SONDE_API_TEXT_UNREACHED_H
#define SONDE_API_TEXT_UNREACHED_H

#include <stddef.h>

enum unreached {
    UNREACHED_NO_ADDRESS,  /* its name has none */
    UNREACHED_NO_RESOLVER, /* nobody answers for its name */
    UNREACHED_REFUSED,     /* nothing listens there, or it is away */
    UNREACHED_SILENT,      /* neither accepted nor refused the connection in time */
    UNREACHED_CERTIFICATE,
    UNREACHED_NO_ANSWER, /* it was connected */
    UNREACHED_BROKEN,    /* the connection ended */
};

/* server: "HOST:PORT", or a longer subject of the sentence. Returns the text. */
const char *unreached_text(enum unreached why, const char *server, char *text, size_t size);

#endif
