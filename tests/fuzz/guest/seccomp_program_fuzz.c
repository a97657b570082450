/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a seccomp filter. If the first instruction returns a constant, the answer is known.
 */
#include "service/guest/process/seccomp_program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct sock_filter filter[BPF_MAXINSNS];
    size_t len = size / sizeof *filter < BPF_MAXINSNS ? size / sizeof *filter : BPF_MAXINSNS;
    struct sock_fprog program = {(unsigned short)len, filter};
    memcpy(filter, data, len * sizeof *filter);
    bool harms = seccomp_program_harms(&program, false);
    if (len == 0 && !harms)
        abort();
    if (!harms && seccomp_program_harms(&program, true) == false)
        return 0;
    if (len > 0 && filter[0].code == (BPF_RET | BPF_K) && filter[0].k == SECCOMP_RET_ALLOW)
        abort();
    return 0;
}
