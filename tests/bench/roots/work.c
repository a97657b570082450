/* SPDX-License-Identifier: Apache-2.0
 *
 * Work in a C library's own code: formatting, sorting with a callback, mathematics, memory, system
 * calls. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static double work(unsigned depth) {
    char text[200], *words[100];
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "%d word %f", (int)(i * 7919 + depth) % 103, sqrt(i + depth));
        words[i] = strdup(text);
        sum += sin(i) + pow(1.01, i) + getppid() % 2;
    }
    qsort(words, 100, sizeof *words, by_text);
    for (int i = 0; i < 100; i++)
        free(words[i]);
    return depth ? sum + work(depth - 1) : sum;
}

static void *run(void *context) {
    volatile double sum = 0;
    for (;;)
        sum = sum + work(12);
    return context;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    run(NULL);
}
