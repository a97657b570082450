/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/negotiate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is four headers, separated by line ends; a missing line is a header that was not sent.
 */
static struct sonde_slice next_line(struct sonde_slice *rest) {
    if (!rest->data)
        return (struct sonde_slice){NULL, 0};
    const char *end = memchr(rest->data, '\n', rest->len);
    struct sonde_slice line = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
    if (end)
        *rest = (struct sonde_slice){end + 1, rest->len - line.len - 1};
    else
        *rest = (struct sonde_slice){NULL, 0};
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_slice rest = {(const char *)data, size};
    struct negotiate_headers headers;
    headers.accept = next_line(&rest);
    headers.accept_encoding = next_line(&rest);
    headers.content_type = next_line(&rest);
    headers.user_agent = next_line(&rest);
    enum negotiate_shape shape = negotiate_profile(&headers);
    if (negotiate_reads_pprof(&headers) && (headers.accept.data || shape != NEGOTIATE_PROTO))
        __builtin_trap();
    if (negotiate_wants_html(&headers) && !negotiate_is_browser(&headers))
        __builtin_trap();
    return 0;
}
