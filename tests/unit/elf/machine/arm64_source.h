/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with frames of all kinds, and how compilers are told to make them. */
#ifndef SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_SOURCE_H
#define SONDE_TESTS_UNIT_ELF_MACHINE_ARM64_SOURCE_H

#define ARM64_SOURCE                                                                              \
    "long outside(long);\n"                                                                       \
    "long frames(long a) { volatile long x[10]; x[a] = outside(a); return x[1] + outside(a); }\n" \
    "long big(long a) { volatile char b[70000]; b[a] = 1; return outside(a) + b[a + 1]; }\n"      \
    "long dynamic(long n) { volatile char b[n]; b[0] = outside(n); return b[0]; }\n"              \
    "long aligned(long n) { volatile long b[4] __attribute__((aligned(64)));\n"                   \
    "    b[0] = outside(n); return b[n]; }\n"                                                     \
    "long many(long a, long b, long c, long d) {\n"                                               \
    "    long r = 0;\n"                                                                           \
    "    for (int i = 0; i < a; i++) r += outside(a + i) * b + outside(c) * d + outside(r);\n"    \
    "    return r + a * b * c * d;\n"                                                             \
    "}\n"                                                                                         \
    "double floats(double a, double b) { return outside((long)a) * b + outside((long)b) * a; }\n" \
    "long leaf(long a) { return a * 3; }\n"                                                       \
    "void aborts(void) { outside(1); __builtin_trap(); }\n"

static const char *const arm64_flags[] = {"-O0",
                                          "-O2",
                                          "-Os",
                                          "-O2 -fomit-frame-pointer",
                                          "-O2 -mbranch-protection=standard",
                                          "-O2 -mbranch-protection=pac-ret+leaf+b-key",
                                          "-O2 -fstack-protector-all"};

#endif
