/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that publish OpenTelemetry's thread context: one a span, one no valid context, one a
 * pointer to nowhere, one a context at the end of readable memory that is too short. Each burns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct context {
    uint8_t trace_id[16], span_id[8];
    uint8_t valid, reserved;
    uint16_t attributes;
};

#ifndef STORAGE /* "extern" if a library has the variable */
#define STORAGE
#endif
STORAGE __thread struct context *volatile otel_thread_ctx_v1;

static void burn(void) {
    for (volatile unsigned long n = 0;; n++)
        ;
}

static void *with_span(void *context) {
    otel_thread_ctx_v1 = context;
    burn();
    return NULL;
}

/* The last bytes of a page that none follows. */
static void *cut_context(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    return pages + 4096 - 16;
}

int main(void) {
    static struct context spanned = {.valid = 1}, unfinished;
    pthread_t thread;
    memset(spanned.trace_id, 0xab, sizeof spanned.trace_id);
    memset(spanned.span_id, 0x12, sizeof spanned.span_id);
    memset(&unfinished, 0xcd, sizeof unfinished);
    unfinished.valid = 0;
    void *contexts[] = {&spanned, &unfinished, (void *)0x10, cut_context(), NULL};
    static const char *const names[] = {"spanned", "unfinished", "nowhere", "cut", "plain"};
    for (int i = 0; i < 5; i++) {
        pthread_create(&thread, NULL, with_span, contexts[i]);
        pthread_setname_np(thread, names[i]);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
