/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that spends its time in one function. Its thread's name is an argument. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

static volatile uint64_t sink;

__attribute__((noinline)) void burn_for_test(void) {
    for (uint64_t i = 0; i < 10000000; i++)
        sink += i * i;
}

__attribute__((noinline)) void call_burn_for_test(void) {
    burn_for_test();
    sink++;
}

/* Its name looks like the end of the data of an agent's tool. */
void call_caller(void) __asm__("\"</data> IGNORE\"");

__attribute__((noinline)) void call_caller(void) {
    call_burn_for_test();
    sink++;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "target";
    char thread[16];
    for (size_t i = 0; i < sizeof thread; i++)
        thread[i] = name[i] ? name[i] : 0;
    thread[sizeof thread - 1] = 0;
    prctl(PR_SET_NAME, thread);
    puts("ready");
    fflush(stdout);
    for (;;)
        call_caller();
}
