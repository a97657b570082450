/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that asks one server for one file. It loads libcurl with dlopen, so the service
 * starts without libcurl and its dozens of libraries, and runs where libcurl is not installed.
 *
 * Debian's libdebuginfod (0.188) was tried instead, against servers that misbehave:
 *
 *   size   DEBUGINFOD_MAXSIZE only checks Content-Length. With a limit of 64 MiB, a chunked answer
 *          had written 320 MB when the time was over, and 2.7 MB of gzip became a file of 600 MB.
 *   time   There is no connect timeout: a server that drops packets takes all of
 *          DEBUGINFOD_MAXTIME. Redirects are not limited either: 487 in 0.3 s. A transfer below
 *          100 kB/s is cut after DEBUGINFOD_TIMEOUT, so a slow but steady server cannot be told
 *          from one that stalls.
 *   errors HTTP 403, 429, 500 and 503 and a truncated body all return -ENOENT, as 404 does. A
 *          server that fails could not be told from one that lacks the file, so it would never
 *          be paused.
 *
 * RLIMIT_FSIZE and a kill would bound size and time from outside. The errors would remain, and the
 * worker would need a directory to write to; now it can only write to one open file. */
#include "service/symbol/debuginfod/debuginfod.h"

#include "api/os/secrets/ca_bundle.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#undef curl_easy_setopt /* macros that refer to the functions by name */
#undef curl_easy_getinfo

#define NOBODY       65534
#define MEMORY_BYTES ((rlim_t)1 << 30)
#define CPU_SECONDS  120
#define CONNECT_MS   5000L
#define SLOW_BYTES   1024L /* per second; a transfer that is slower for SLOW_S fails */
#define SLOW_S       10L
#define REDIRECTS    5L

struct library {
    typeof(&curl_global_init) global_init;
    typeof(&curl_easy_init) init;
    typeof(&curl_easy_setopt) set;
    typeof(&curl_easy_perform) perform;
    typeof(&curl_easy_getinfo) get;
};

bool symbol_fetch_is_asked(int argc, char **argv) {
    return argc == 4 && strcmp(argv[1], SYMBOL_FETCH_ARGUMENT) == 0;
}

static bool set_limit(int what, rlim_t most) {
    struct rlimit limit = {most, most};
    return setrlimit(what, &limit) == 0;
}

/* Answers from the network are hostile input. */
static bool drop_privileges(void) {
    bool limited = set_limit(RLIMIT_CORE, 0) && set_limit(RLIMIT_CPU, CPU_SECONDS) &&
                   set_limit(RLIMIT_FSIZE, SYMBOL_FETCH_BYTES);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    limited = limited && set_limit(RLIMIT_AS, MEMORY_BYTES);
#endif
    bool is_root = geteuid() == 0;
    return limited &&
           (!is_root || (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                         setresuid(NOBODY, NOBODY, NOBODY) == 0)) &&
           prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool load(struct library *curl) {
    void *handle = dlopen("libcurl.so.4", RTLD_NOW);
    if (!handle)
        return false;
    *(void **)&curl->global_init = dlsym(handle, "curl_global_init");
    *(void **)&curl->init = dlsym(handle, "curl_easy_init");
    *(void **)&curl->set = dlsym(handle, "curl_easy_setopt");
    *(void **)&curl->perform = dlsym(handle, "curl_easy_perform");
    *(void **)&curl->get = dlsym(handle, "curl_easy_getinfo");
    return curl->global_init && curl->init && curl->set && curl->perform && curl->get &&
           curl->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context) {
    size_t len = size * count, done = 0;
    while (done < len) {
        ssize_t wrote = write(SYMBOL_FETCH_OUT, bytes + done, len - done);
        if (wrote <= 0)
            return 0;
        done += (size_t)wrote;
    }
    return len;
}

/* Only HTTP: a redirect to file: or another protocol could read what the server must not see. */
static bool prepare(const struct library *curl, CURL *request, const char *url) {
    const char *ca = sonde_ca_bundle();
    return (!ca || curl->set(request, CURLOPT_CAINFO, ca) == CURLE_OK) &&
           curl->set(request, CURLOPT_URL, url) == CURLE_OK &&
           curl->set(request, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl->set(request, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl->set(request, CURLOPT_FOLLOWLOCATION, 1L) == CURLE_OK &&
           curl->set(request, CURLOPT_MAXREDIRS, REDIRECTS) == CURLE_OK &&
           curl->set(request, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
           curl->set(request, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl->set(request, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
           curl->set(request, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES) == CURLE_OK &&
           curl->set(request, CURLOPT_LOW_SPEED_TIME, SLOW_S) == CURLE_OK &&
           curl->set(request, CURLOPT_TIMEOUT, (long)SYMBOL_FETCH_SECONDS) == CURLE_OK &&
           curl->set(request, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)SYMBOL_FETCH_BYTES) ==
               CURLE_OK &&
           curl->set(request, CURLOPT_USERAGENT, "sonde") == CURLE_OK &&
           curl->set(request, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK;
}

static int fetch(const struct library *curl, const char *server, const char *build_id) {
    char url[2048];
    long code = 0;
    size_t len = strlen(server);
    while (len > 0 && server[len - 1] == '/')
        len--;
    if ((size_t)snprintf(url, sizeof url, "%.*s/buildid/%s/debuginfo", (int)len, server,
                         build_id) >= sizeof url)
        return SYMBOL_FETCH_FAILED;
    CURL *request = curl->init();
    if (!request || !prepare(curl, request, url))
        return SYMBOL_FETCH_FAILED;
    CURLcode result = curl->perform(request);
    curl->get(request, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_HTTP_RETURNED_ERROR && (code == 404 || code == 410))
        return SYMBOL_FETCH_ABSENT;
    if (result == CURLE_FILESIZE_EXCEEDED)
        return SYMBOL_FETCH_TOO_LARGE;
    return result == CURLE_OK ? SYMBOL_FETCH_DONE : SYMBOL_FETCH_FAILED;
}

static int serve(int argc, char **argv) {
    struct library curl;
    if (!symbol_fetch_is_asked(argc, argv) || !drop_privileges())
        return SYMBOL_FETCH_FAILED;
    if (!load(&curl))
        return SYMBOL_FETCH_NO_LIBRARY;
    return fetch(&curl, argv[2], argv[3]);
}

/* _exit, because exit handlers were not written for a process without its privileges. */
int symbol_fetch_main(int argc, char **argv) {
    _exit(serve(argc, argv));
}
