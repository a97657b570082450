/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum outcome { PASSED, FAILED, SKIPPED };

static struct check_test *first, **last = &first;
static const char *running;
static jmp_buf leave_test;

void check_register(struct check_test *test) {
    *last = test;
    last = &test->next;
}

void check_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    printf("%s:%d: ", file, line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    longjmp(leave_test, FAILED);
}

void check_skip(const char *format, ...) {
    va_list arguments;
    printf("SKIP: %s: ", running);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    longjmp(leave_test, SKIPPED);
}

static enum outcome run(const struct check_test *test) {
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    running = test->name;
    int outcome = setjmp(leave_test);
    if (outcome == PASSED)
        test->run();
    printf("%-7s %s\n", words[outcome], test->name);
    fflush(stdout);
    return (enum outcome)outcome;
}

/* Bazel divides the tests of a target with shard_count among several processes. */
static int is_in_shard(int number) {
    const char *total = getenv("TEST_TOTAL_SHARDS"), *index = getenv("TEST_SHARD_INDEX");
    return !total || !index || atoi(total) < 2 || number % atoi(total) == atoi(index);
}

static int wanted(const char *name, int count, char **parts) {
    for (int i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return 1;
    return count == 0;
}

int main(int argc, char **argv) {
    int counts[3] = {0}, number = 0;
    for (const struct check_test *test = first; test; test = test->next)
        if (wanted(test->name, argc - 1, argv + 1) && is_in_shard(number++))
            counts[run(test)]++;
    printf("%d passed, %d failed, %d skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] != 0 || counts[PASSED] + counts[SKIPPED] == 0;
}
