/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile requests of Collect: the first opens a session, each later one follows its length as two
 * bytes. There is no engine: nothing is recorded, because nothing ticks. */
#include "service/collect/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wake(void *context) {
    (void)context;
}

static void drain(struct collect_link *link) {
    struct sonde_buf answer = {0};
    struct sonde_diag diag = {0};
    bool is_empty = false;
    for (int i = 0; i < 100 && !is_empty; i++) {
        answer.len = 0;
        if (collect_next(link, 1000000000, &answer, &is_empty, &diag))
            abort();
    }
    if (!is_empty)
        abort();
    sonde_buf_finish(&answer);
}

static bool handle(struct collect *collect, struct collect_link **link, const uint8_t *data,
                   size_t size) {
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    Sonde__V1__CollectRequest *request = sonde__v1__collect_request__unpack(NULL, size, data);
    if (!request)
        return false;
    if (*link)
        err = collect_receive(*link, request, &diag);
    else
        err = collect_open(collect, request, wake, NULL, link, &diag);
    sonde__v1__collect_request__free_unpacked(request, NULL);
    if (err && !diag.text[0])
        abort();
    if (!err)
        drain(*link);
    return !err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char dir[4096];
    static struct collect *collect;
    struct collect_link *link = NULL;
    if (!collect) {
        const char *temporary = getenv("TMPDIR");
        snprintf(dir, sizeof dir, "%s/collect.XXXXXX", temporary ? temporary : "/tmp");
        const struct collect_options options = {.dir = mkdtemp(dir), .is_manual = true};
        if (collect_create(&options, &collect, NULL))
            abort();
    }
    bool goes_on = true;
    while (size >= 2 && goes_on) {
        size_t len = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        len = len < size ? len : size;
        goes_on = handle(collect, &link, data, len);
        data += len;
        size -= len;
    }
    collect_close(link);
    return 0;
}
