/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/maps/maps_watch.h"

#include "service/guest/raw.h"

#include <fcntl.h>

/* statm holds "size resident shared text lib data dirty", in pages. */
static bool parse_sizes(const char *text, uint64_t *pages, uint64_t *data_pages) {
    uint64_t numbers[6] = {0};
    int at = 0;
    for (; *text && at < 6; text++) {
        if (*text >= '0' && *text <= '9')
            numbers[at] = numbers[at] * 10 + (uint64_t)(*text - '0');
        else
            at++;
    }
    *pages = numbers[0];
    *data_pages = numbers[5];
    return at == 6 && numbers[0] > 0;
}

static bool read_sizes(uint64_t *pages, uint64_t *data_pages) {
    char text[160];
    long fd = system_call(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/statm",
                          O_RDONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return false;
    long got = system_call3(SYS_read, fd, (long)text, sizeof text - 1);
    raw_close((int)fd);
    text[got > 0 ? got : 0] = 0;
    return got > 0 && parse_sizes(text, pages, data_pages);
}

static int64_t later(int64_t one, int64_t other) {
    return one > other ? one : other;
}

void maps_watch_before(struct maps_watch *watch) {
    if (!read_sizes(&watch->pages, &watch->data_pages))
        watch->pages = 0;
}

void maps_watch_begin(struct maps_watch *watch, int64_t now, int64_t cost_ns,
                      struct maps_reasons reasons) {
    int64_t pause = cost_ns * MAPS_WATCH_PATIENCE;
    watch->look_ns = maps_watch_next(now + (reasons.running ? pause : MAPS_WATCH_KEEP_NS));
    watch->sure_ns = now + MAPS_WATCH_KEEP_NS;
    watch->missed_ns = now + later(pause, MAPS_WATCH_MISS_NS);
    watch->closed_ns = now + later(pause, MAPS_WATCH_CLOSE_NS);
}

int64_t maps_watch_due(const struct maps_watch *watch, struct maps_reasons reasons) {
    int64_t due = watch->look_ns;
    if (reasons.missed && watch->missed_ns < due)
        due = watch->missed_ns;
    if (reasons.closed && watch->closed_ns < due)
        due = watch->closed_ns;
    return due;
}

bool maps_watch_wants(struct maps_watch *watch, int64_t now, struct maps_reasons reasons) {
    uint64_t pages, data_pages;
    if (now < maps_watch_due(watch, reasons))
        return false;
    bool asked = (reasons.missed && now >= watch->missed_ns) ||
                 (reasons.closed && now >= watch->closed_ns) || now >= watch->sure_ns;
    if (asked || watch->pages == 0 || !read_sizes(&pages, &data_pages) || pages != watch->pages ||
        data_pages != watch->data_pages)
        return true;
    watch->look_ns = maps_watch_next(now);
    return false;
}
