/* SPDX-License-Identifier: Apache-2.0
 *
 * A wrapper has two halves. The fast half, wrap_*, makes one comparison; it needs no frame and ends
 * in a jump. The slow half, sample_* or forget_*, handles a block that may be sampled. It is never
 * inlined, and its return address is in the caller of malloc.
 *
 * A block is added to the samples after the real allocation and removed before the real free; in
 * between no other block can have its address. realloc counts as a free and an allocation. If it
 * fails, the old block is added again. */
#include "service/guest/heap/malloc_wrappers.h"

#include "service/guest/heap/sampler.h"

#include <errno.h>
#include <stdint.h>

#define CALLER    __builtin_return_address(0)
#define SLOW_HALF static __attribute__((noinline))
#define FAST_HALF static

/* ---- Allocations that return the block ---- */

#define ALLOCATES(name, bytes, parameters, ...)           \
    static void *(*real_##name)parameters;                \
    SLOW_HALF void *sample_##name parameters {            \
        struct sampler_choice choice;                     \
        bool is_sampled = sampler_choose(bytes, &choice); \
        void *block = real_##name(__VA_ARGS__);           \
        if (is_sampled && block)                          \
            sampler_note(block, bytes, &choice, CALLER);  \
        return block;                                     \
    }                                                     \
    FAST_HALF void *wrap_##name parameters {              \
        if (sampler_is_due(bytes))                        \
            return sample_##name(__VA_ARGS__);            \
        return real_##name(__VA_ARGS__);                  \
    }

/* The size that calloc is asked for. On overflow the real calloc fails. */
static inline size_t product(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

ALLOCATES(malloc, size, (size_t size), size)
ALLOCATES(calloc, product(count, size), (size_t count, size_t size), count, size)
ALLOCATES(memalign, size, (size_t align, size_t size), align, size)
ALLOCATES(aligned_alloc, size, (size_t align, size_t size), align, size)
ALLOCATES(valloc, size, (size_t size), size)
ALLOCATES(pvalloc, size, (size_t size), size)
ALLOCATES(mallocx, size, (size_t size, int flags), size, flags)
/* operator new and new[]: plain, nothrow, aligned, both. Their exceptions pass through the
 * wrapper. */
ALLOCATES(_Znwm, size, (size_t size), size)
ALLOCATES(_Znam, size, (size_t size), size)
ALLOCATES(_ZnwmRKSt9nothrow_t, size, (size_t size, const void *tag), size, tag)
ALLOCATES(_ZnamRKSt9nothrow_t, size, (size_t size, const void *tag), size, tag)
ALLOCATES(_ZnwmSt11align_val_t, size, (size_t size, size_t align), size, align)
ALLOCATES(_ZnamSt11align_val_t, size, (size_t size, size_t align), size, align)
ALLOCATES(_ZnwmSt11align_val_tRKSt9nothrow_t, size, (size_t size, size_t align, const void *tag),
          size, align, tag)
ALLOCATES(_ZnamSt11align_val_tRKSt9nothrow_t, size, (size_t size, size_t align, const void *tag),
          size, align, tag)

/* ---- posix_memalign ---- */

static int (*real_posix_memalign)(void **block, size_t align, size_t size);

SLOW_HALF int sample_posix_memalign(void **block, size_t align, size_t size) {
    struct sampler_choice choice;
    bool is_sampled = sampler_choose(size, &choice);
    int error = real_posix_memalign(block, align, size);
    if (is_sampled && error == 0 && *block)
        sampler_note(*block, size, &choice, CALLER);
    return error;
}

FAST_HALF int wrap_posix_memalign(void **block, size_t align, size_t size) {
    if (sampler_is_due(size))
        return sample_posix_memalign(block, align, size);
    return real_posix_memalign(block, align, size);
}

/* ---- realloc ---- */

/* realloc(block, 0) may free the block and return NULL: it is not added again then. */
#define REALLOCATES(name, parameters, ...)                                              \
    static void *(*real_##name)parameters;                                              \
    SLOW_HALF void *sample_##name parameters {                                          \
        struct sampler_choice choice;                                                   \
        struct sample old;                                                              \
        bool was_sampled = sample_table_may_hold(block) && sampler_forget(block, &old); \
        bool is_sampled = sampler_choose(size, &choice);                                \
        void *moved = real_##name(__VA_ARGS__);                                         \
        if (was_sampled && !moved && size != 0)                                         \
            sampler_restore(block, &old);                                               \
        if (is_sampled && moved)                                                        \
            sampler_note(moved, size, &choice, CALLER);                                 \
        return moved;                                                                   \
    }                                                                                   \
    SLOW_HALF void *move_##name parameters {                                            \
        struct sample old;                                                              \
        bool was_sampled = sampler_forget(block, &old);                                 \
        void *moved = real_##name(__VA_ARGS__);                                         \
        if (was_sampled && !moved && size != 0)                                         \
            sampler_restore(block, &old);                                               \
        return moved;                                                                   \
    }                                                                                   \
    FAST_HALF void *wrap_##name parameters {                                            \
        if (sampler_is_due(size))                                                       \
            return sample_##name(__VA_ARGS__);                                          \
        if (sample_table_may_hold(block))                                               \
            return move_##name(__VA_ARGS__);                                            \
        return real_##name(__VA_ARGS__);                                                \
    }

REALLOCATES(realloc, (void *block, size_t size), block, size)
REALLOCATES(rallocx, (void *block, size_t size, int flags), block, size, flags)

/* libc's reallocarray calls realloc through a patched import, which would count the block twice. */
FAST_HALF void *wrap_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return wrap_realloc(block, bytes);
}

/* ---- Frees ---- */

#define FREES(name, parameters, ...)          \
    static void(*real_##name) parameters;     \
    SLOW_HALF void forget_##name parameters { \
        struct sample gone;                   \
        (void)sampler_forget(block, &gone);   \
        real_##name(__VA_ARGS__);             \
    }                                         \
    FAST_HALF void wrap_##name parameters {   \
        if (sample_table_may_hold(block))     \
            forget_##name(__VA_ARGS__);       \
        else                                  \
            real_##name(__VA_ARGS__);         \
    }

FREES(free, (void *block), block)
FREES(cfree, (void *block), block)
FREES(free_sized, (void *block, size_t size), block, size)
FREES(free_aligned_sized, (void *block, size_t align, size_t size), block, align, size)
FREES(dallocx, (void *block, int flags), block, flags)
FREES(sdallocx, (void *block, size_t size, int flags), block, size, flags)
/* operator delete and delete[]: plain, sized, nothrow, aligned and their combinations. */
FREES(_ZdlPv, (void *block), block)
FREES(_ZdaPv, (void *block), block)
FREES(_ZdlPvm, (void *block, size_t size), block, size)
FREES(_ZdaPvm, (void *block, size_t size), block, size)
FREES(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), block, tag)
FREES(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), block, tag)
FREES(_ZdlPvSt11align_val_t, (void *block, size_t align), block, align)
FREES(_ZdaPvSt11align_val_t, (void *block, size_t align), block, align)
FREES(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t align), block, size, align)
FREES(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t align), block, size, align)
FREES(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, const void *tag), block,
      align, tag)
FREES(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t align, const void *tag), block,
      align, tag)

/* ---- The table ---- */

#define ROW(name) \
    { #name, (malloc_function *)wrap_##name, (malloc_function **)&real_##name }

const struct malloc_wrapper malloc_wrappers[] = {
    ROW(malloc),
    ROW(free),
    ROW(calloc),
    ROW(realloc),
    {"reallocarray", (malloc_function *)wrap_reallocarray, NULL},
    ROW(memalign),
    ROW(aligned_alloc),
    ROW(posix_memalign),
    ROW(valloc),
    ROW(pvalloc),
    ROW(cfree),
    ROW(free_sized),
    ROW(free_aligned_sized),
    ROW(mallocx),
    ROW(rallocx),
    ROW(dallocx),
    ROW(sdallocx),
    ROW(_Znwm),
    ROW(_Znam),
    ROW(_ZnwmRKSt9nothrow_t),
    ROW(_ZnamRKSt9nothrow_t),
    ROW(_ZnwmSt11align_val_t),
    ROW(_ZnamSt11align_val_t),
    ROW(_ZnwmSt11align_val_tRKSt9nothrow_t),
    ROW(_ZnamSt11align_val_tRKSt9nothrow_t),
    ROW(_ZdlPv),
    ROW(_ZdaPv),
    ROW(_ZdlPvm),
    ROW(_ZdaPvm),
    ROW(_ZdlPvRKSt9nothrow_t),
    ROW(_ZdaPvRKSt9nothrow_t),
    ROW(_ZdlPvSt11align_val_t),
    ROW(_ZdaPvSt11align_val_t),
    ROW(_ZdlPvmSt11align_val_t),
    ROW(_ZdaPvmSt11align_val_t),
    ROW(_ZdlPvSt11align_val_tRKSt9nothrow_t),
    ROW(_ZdaPvSt11align_val_tRKSt9nothrow_t),
};

const size_t malloc_wrapper_count = sizeof malloc_wrappers / sizeof malloc_wrappers[0];
