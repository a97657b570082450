/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/capabilities.h"

#include "service/guest/raw.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>

/* The data of capget and capset: capabilities 0-31 and 32-63. */
struct caps {
    struct __user_cap_data_struct words[2];
};

static long get(int tid, struct caps *caps) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, tid};
    return system_call3(SYS_capget, (long)&header, (long)caps, 0);
}

bool capabilities_get(int tid, struct capabilities *capabilities) {
    struct caps caps;
    if (get(tid, &caps) < 0)
        return false;
    for (int i = 0; i < 2; i++) {
        capabilities->effective[i] = caps.words[i].effective;
        capabilities->permitted[i] = caps.words[i].permitted;
        capabilities->inheritable[i] = caps.words[i].inheritable;
    }
    capabilities->securebits = system_call(SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0);
    return true;
}

bool capabilities_equal(const struct capabilities *a, const struct capabilities *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

void capabilities_limit_to(int tid) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct caps own, theirs;
    uint32_t surplus = 0;
    if (get(0, &own) < 0 || get(tid, &theirs) < 0)
        return;
    for (int i = 0; i < 2; i++) {
        surplus |= own.words[i].permitted & ~theirs.words[i].permitted;
        own.words[i].permitted &= theirs.words[i].permitted;
        own.words[i].effective &= theirs.words[i].permitted;
        own.words[i].inheritable &= theirs.words[i].permitted;
    }
    if (surplus)
        system_call3(SYS_capset, (long)&header, (long)&own, 0);
}
