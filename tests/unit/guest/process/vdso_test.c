/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's clock is the kernel's, whatever libc's name for it is bound to. */
#include "service/guest/process/vdso.h"
#include "service/guest/signal/handler_state.h"
#include "tests/unit/check.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

static int calls;

/* As another preloaded library would. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    calls++;
    *time = (struct timespec){.tv_sec = 7};
    return 0;
}

static int64_t kernel_ns(clockid_t clock) {
    struct timespec now = {0};
    CHECK_INT(system_call3(SYS_clock_gettime, clock, (long)&now, 0), ==, 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void check_clocks(void) {
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID,
                                       CLOCK_PROCESS_CPUTIME_ID};
    for (int i = 0; i < 3; i++) {
        int64_t before = kernel_ns(clocks[i]), read = handler_clock_ns(clocks[i]);
        CHECK_INT(read, >=, before);
        CHECK_INT(read, <=, kernel_ns(clocks[i]));
    }
    CHECK_INT(handler_clock_ns(THREAD_CPU_CLOCK(4194303)), ==, 0); /* no such thread */
}

TEST(the_clock_is_the_kernels_with_and_without_a_vdso) {
    int before = calls;
    handler_set_clock(NULL);
    check_clocks();
    CHECK(vdso_find_clock() != NULL);
    handler_set_clock(vdso_find_clock());
    check_clocks();
    CHECK_INT(calls, ==, before);
}

TEST(a_cut_or_foreign_vdso_has_no_clock) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    size_t bytes = header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr);
    CHECK(vdso_find_clock_in(header, bytes) != NULL);
    CHECK(vdso_find_clock_in(header, header->e_shoff) == NULL);
    CHECK(vdso_find_clock_in(header, sizeof *header - 1) == NULL);
    CHECK(vdso_find_clock_in("not ELF", 7) == NULL);
}
