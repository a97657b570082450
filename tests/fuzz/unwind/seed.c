/* SPDX-License-Identifier: Apache-2.0
 *
 * The fuzzers' seed is the unwind information of this file, which is compiled but never run. It
 * uses no libc, so that it is small. */
int leaf(int n);
int frame(int n);
int grown(int n);
int realigned(int n);

__attribute__((noipa)) int leaf(int n) {
    return n * 3 + 1;
}

__attribute__((noipa)) int frame(int n) {
    volatile char bytes[200];
    bytes[n & 127] = (char)n;
    return leaf(n) + bytes[n & 63];
}

__attribute__((noipa)) int grown(int n) {
    volatile char *bytes = __builtin_alloca((unsigned long)n + 16);
    bytes[n] = 1;
    return frame(n) + bytes[n / 2];
}

__attribute__((noipa)) int realigned(int n) {
    volatile char bytes[64] __attribute__((aligned(64)));
    volatile char *more = __builtin_alloca((unsigned long)n + 16);
    more[n] = bytes[n & 63] = 2;
    return n > 5 ? grown(n) + more[n / 2] : leaf(n) + bytes[1];
}
