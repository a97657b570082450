/* SPDX-License-Identifier: Apache-2.0
 *
 * A small test harness. The name of a test is a sentence:
 *     TEST(ring_push_on_full_ring_counts_a_drop) { ... }
 * The main() in check.c runs all tests of a program in the order of their lines, or those whose
 * names contain one of the arguments. A failed CHECK prints its file, line and values and ends its
 * test. */
#ifndef SONDE_TESTS_UNIT_CHECK_H
#define SONDE_TESTS_UNIT_CHECK_H

#include <stdint.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
};

void check_register(struct check_test *test);
/* Ends the running test as failed. Takes a printf format. */
_Noreturn void check_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the running test as skipped, for a test that cannot run on this machine. The text is the
 * reason. */
_Noreturn void check_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define TEST(test_name)                                                           \
    static void test_name(void);                                                  \
    static struct check_test check_test_##test_name = {#test_name, test_name, 0}; \
    __attribute__((constructor)) static void check_register_##test_name(void) {   \
        check_register(&check_test_##test_name);                                  \
    }                                                                             \
    static void test_name(void)

#define CHECK(condition)                                      \
    do {                                                      \
        if (!(condition))                                     \
            check_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)

/* Compares integers of any type that fits into 64 bits. */
#define CHECK_INT(actual, op, expected)                                                     \
    do {                                                                                    \
        long long check_a = (long long)(actual), check_e = (long long)(expected);           \
        if (!(check_a op check_e))                                                          \
            check_fail(__FILE__, __LINE__, "%s %s %s: %lld, %lld", #actual, #op, #expected, \
                       check_a, check_e);                                                   \
    } while (0)

#define CHECK_NEAR(actual, expected, tolerance)                                                 \
    do {                                                                                        \
        double check_a = (double)(actual), check_e = (double)(expected), check_t = (tolerance); \
        if (!(check_a - check_e <= check_t && check_e - check_a <= check_t))                    \
            check_fail(__FILE__, __LINE__, "%s is %g, not %g +- %g", #actual, check_a, check_e, \
                       check_t);                                                                \
    } while (0)

#define CHECK_STR(actual, expected)                                                 \
    do {                                                                            \
        const char *check_a = (actual), *check_e = (expected);                      \
        if (check_a == 0 || check_e == 0 || strcmp(check_a, check_e) != 0)          \
            check_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #actual,     \
                       check_a ? check_a : "(null)", check_e ? check_e : "(null)"); \
    } while (0)

#endif
