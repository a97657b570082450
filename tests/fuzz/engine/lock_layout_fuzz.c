/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a lock and the arguments of futex, as a hostile process sets them: an owner is a
 * possible tid, and a lock begins at most a few bytes before the word. */
#include "service/engine/backtraces/lock_layout.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MOST_BEFORE 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tracee_snapshot snapshot = {.call = SYS_futex};
    uint8_t bytes[LOCK_LAYOUT_BYTES] = {0};
    struct futex_wait wait;
    size_t head = size < sizeof snapshot.arguments ? size : sizeof snapshot.arguments;
    memcpy(snapshot.arguments, data, head);
    snapshot.arguments[0] &= ~3ull;
    snapshot.arguments[1] &= FUTEX_PRIVATE_FLAG | 0xf;
    memcpy(bytes, data + head, size - head < sizeof bytes ? size - head : sizeof bytes);
    if (!futex_wait_read(&snapshot, &wait))
        return 0;
    for (int number = SONDE_LOCK_PLAIN; number <= SONDE_LOCK_PTHREAD_RWLOCK; number++) {
        enum sonde_lock_layout layout = (enum sonde_lock_layout)number;
        uint64_t start = lock_layout_start(layout, &wait);
        if (start && (start > wait.address || wait.address - start > MOST_BEFORE))
            abort();
        if (lock_layout_read(layout, &wait, bytes).owner > FUTEX_TID_MASK)
            abort();
    }
    return 0;
}
