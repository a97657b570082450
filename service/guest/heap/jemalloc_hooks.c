/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/heap/jemalloc_hooks.h"

#include "service/guest/heap/got_patch.h"
#include "service/guest/heap/mallctl.h"
#include "service/guest/heap/sampler.h"

#include <stddef.h>
#include <stdint.h>

#define INSTALL "experimental.hooks.install"
#define REMOVE  "experimental.hooks.remove"

#define LOWEST_BLOCK (1ull << 40) /* jemalloc's memory is above, sizes are below */

/* Values of jemalloc's enums that are the same in all versions. */
enum call { CALL_MALLOC, CALL_POSIX_MEMALIGN, CALL_ALIGNED_ALLOC, CALL_CALLOC, CALL_MEMALIGN };
enum { EXPAND_XALLOCX = 2 };

/* The struct that jemalloc copies. */
struct hooks {
    void (*on_alloc)(void *context, int call, void *block, uintptr_t result,
                     const uintptr_t *arguments);
    void (*on_free)(void *context, int call, void *block, const uintptr_t *arguments);
    void (*on_expand)(void *context, int call, void *block, size_t before, size_t after,
                      uintptr_t result, const uintptr_t *arguments);
    void *context;
};

static void *installed; /* handle of the hooks; NULL = none */

static uint64_t product(uint64_t count, uint64_t size) {
    uint64_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? UINT64_MAX : bytes;
}

/* The number of bytes that the caller asked for. */
static uint64_t requested(int call, const uintptr_t *arguments) {
    if (call == CALL_MALLOC)
        return arguments[0];
    if (call == CALL_CALLOC)
        return product(arguments[0], arguments[1]);
    if (call == CALL_POSIX_MEMALIGN)
        return arguments[2];
    if (call == CALL_ALIGNED_ALLOC || call == CALL_MEMALIGN)
        return arguments[1];
    /* The numbers of the other calls depend on the version: valloc(size), pvalloc(size),
     * mallocx(size, flags), realloc(block, size), rallocx(block, size, flags). */
    return arguments[0] == 0 || arguments[0] >= LOWEST_BLOCK ? arguments[1] : arguments[0];
}

/* Blocks are not remembered, because their frees are not seen. */
static inline void sample(const void *block, uint64_t bytes, const void *caller) {
    struct sampler_choice choice;
    if (!sampler_is_due(bytes) || !sampler_choose(bytes, &choice))
        return;
    choice.live = false;
    sampler_note(block, bytes, &choice, caller);
}

static void on_alloc(void *context, int call, void *block, uintptr_t result,
                     const uintptr_t *arguments) {
    bool has_failed = !block || (call == CALL_POSIX_MEMALIGN && result != 0);
    if (!has_failed)
        sample(block, requested(call, arguments), __builtin_return_address(0));
}

/* As in the malloc wrappers, realloc in place counts as a free and an allocation, and xallocx does
 * not count. */
static void on_expand(void *context, int call, void *block, size_t before, size_t after,
                      uintptr_t result, const uintptr_t *arguments) {
    if (call != EXPAND_XALLOCX)
        sample(block, arguments[1], __builtin_return_address(0));
}

bool jemalloc_hooks_are_possible(void) {
    bool is_patchable = got_patch_find()->refusal == GOT_PATCH_POSSIBLE;
    return mallctl_address() && got_patch_defines_malloc(mallctl_address()) != is_patchable &&
           mallctl_has(INSTALL);
}

bool jemalloc_hooks_are_on(void) {
    return installed != NULL;
}

int jemalloc_hooks_switch(bool on) {
    static const struct hooks hooks = {on_alloc, NULL, on_expand, NULL};
    void *handle = installed;
    if (on == jemalloc_hooks_are_on())
        return 0;
    if (on)
        return mallctl_exchange(INSTALL, &hooks, sizeof hooks, &installed);
    installed = NULL;
    return mallctl_set_pointer(REMOVE, handle);
}
