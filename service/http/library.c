/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http/library.h"

#include <dlfcn.h>
#include <pthread.h>

static struct http_library library;
static bool is_loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define LOAD(member, name)                            \
    *(void **)&library.member = dlsym(handle, #name); \
    is_loaded = is_loaded && library.member;

static void load(void) {
    void *handle = dlopen("libcurl.so.4", RTLD_NOW);
    if (!handle)
        return;
    is_loaded = true;
    HTTP_LIBRARY(LOAD)
    is_loaded = is_loaded && library.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

const struct http_library *http_library(void) {
    pthread_once(&once, load);
    return is_loaded ? &library : NULL;
}
