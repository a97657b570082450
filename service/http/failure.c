/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http/failure.h"

/* How far the request came before its time was over. */
static enum unreached of_timeout(CURL *handle) {
    const struct http_library *curl = http_library();
    curl_off_t looked_up_us = 0, connected_us = 0;
    curl->get(handle, CURLINFO_NAMELOOKUP_TIME_T, &looked_up_us);
    curl->get(handle, CURLINFO_CONNECT_TIME_T, &connected_us);
    return looked_up_us == 0 ? UNREACHED_NO_RESOLVER
           : connected_us    ? UNREACHED_NO_ANSWER
                             : UNREACHED_SILENT;
}

enum unreached http_failure(CURL *handle, CURLcode code) {
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        return of_timeout(handle);
    case CURLE_COULDNT_RESOLVE_HOST:
        return UNREACHED_NO_ADDRESS;
    case CURLE_COULDNT_CONNECT:
        return UNREACHED_REFUSED;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return UNREACHED_CERTIFICATE;
    default:
        return UNREACHED_BROKEN;
    }
}
