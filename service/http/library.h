/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl, loaded when the first server is named, so that a service without ClickHouse and without
 * receivers over HTTP starts without it and its dozens of libraries. */
#ifndef SONDE_SERVICE_HTTP_LIBRARY_H
#define SONDE_SERVICE_HTTP_LIBRARY_H

#include <curl/curl.h>
#include <stdbool.h>

#undef curl_easy_setopt /* macros that refer to the functions by name */
#undef curl_easy_getinfo

/* The functions that are used: a row is a member and libcurl's name. */
#define HTTP_LIBRARY(FUNCTION)                  \
    FUNCTION(global_init, curl_global_init)     \
    FUNCTION(release, curl_free)                \
    FUNCTION(init, curl_easy_init)              \
    FUNCTION(cleanup, curl_easy_cleanup)        \
    FUNCTION(reset, curl_easy_reset)            \
    FUNCTION(set, curl_easy_setopt)             \
    FUNCTION(get, curl_easy_getinfo)            \
    FUNCTION(perform, curl_easy_perform)        \
    FUNCTION(escape, curl_easy_escape)          \
    FUNCTION(strerror, curl_easy_strerror)      \
    FUNCTION(slist_append, curl_slist_append)   \
    FUNCTION(slist_free, curl_slist_free_all)   \
    FUNCTION(mime_init, curl_mime_init)         \
    FUNCTION(mime_free, curl_mime_free)         \
    FUNCTION(mime_addpart, curl_mime_addpart)   \
    FUNCTION(mime_name, curl_mime_name)         \
    FUNCTION(mime_filename, curl_mime_filename) \
    FUNCTION(mime_data, curl_mime_data)         \
    FUNCTION(url, curl_url)                     \
    FUNCTION(url_set, curl_url_set)             \
    FUNCTION(url_get, curl_url_get)             \
    FUNCTION(url_cleanup, curl_url_cleanup)

#define HTTP_LIBRARY_MEMBER(member, name) typeof(&name) member;
struct http_library {
    HTTP_LIBRARY(HTTP_LIBRARY_MEMBER)
};

/* NULL if libcurl cannot be loaded. Any thread. */
const struct http_library *http_library(void);

#endif
