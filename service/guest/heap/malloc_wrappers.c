/* SPDX-License-Identifier: Apache-2.0
 *
 * Each allocation has two halves: the short one, of one comparison, and `taken`, the long one, for
 * the one in many that may be a sample. The long half is never inlined, so that the short one needs
 * no frame and ends in a jump; its return address is the caller's.
 *
 * A block is put among the samples after the real allocation and taken out before the real free: in
 * between nobody else can have its address. A block that moves (realloc) is freed and allocated
 * anew; when the real function fails it is put back. */
#include "service/guest/heap/malloc_wrappers.h"

#include "service/guest/heap/sampler.h"

#include <errno.h>
#include <stdint.h>

#define CALLER     __builtin_return_address(0)
#define LONG_HALF  static __attribute__((noinline))
#define SHORT_HALF static

/* ---- Allocations that return the block ---- */

#define ALLOCATES(name, bytes, parameters, ...)          \
    static void *(*real_##name)parameters;               \
    LONG_HALF void *taken_##name parameters {            \
        struct sampler_choice choice;                    \
        bool is_taken = sampler_choose(bytes, &choice);  \
        void *block = real_##name(__VA_ARGS__);          \
        if (is_taken && block)                           \
            sampler_note(block, bytes, &choice, CALLER); \
        return block;                                    \
    }                                                    \
    SHORT_HALF void *our_##name parameters {             \
        if (sampler_is_due(bytes))                       \
            return taken_##name(__VA_ARGS__);            \
        return real_##name(__VA_ARGS__);                 \
    }

/* What calloc is asked for; where it overflows the real one fails. */
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
/* operator new and new[]; plain, nothrow, aligned, both. What they throw passes through us. */
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

LONG_HALF int taken_posix_memalign(void **block, size_t align, size_t size) {
    struct sampler_choice choice;
    bool is_taken = sampler_choose(size, &choice);
    int error = real_posix_memalign(block, align, size);
    if (is_taken && error == 0 && *block)
        sampler_note(*block, size, &choice, CALLER);
    return error;
}

SHORT_HALF int our_posix_memalign(void **block, size_t align, size_t size) {
    if (sampler_is_due(size))
        return taken_posix_memalign(block, align, size);
    return real_posix_memalign(block, align, size);
}

/* ---- realloc ---- */

/* size 0: the block is freed where NULL comes back. */
#define REALLOCATES(name, parameters, ...)                                       \
    static void *(*real_##name)parameters;                                       \
    LONG_HALF void *taken_##name parameters {                                    \
        struct sampler_choice choice;                                            \
        struct sample old;                                                       \
        bool was_taken = samples_may_hold(block) && sampler_forget(block, &old); \
        bool is_taken = sampler_choose(size, &choice);                           \
        void *moved = real_##name(__VA_ARGS__);                                  \
        if (was_taken && !moved && size != 0)                                    \
            sampler_restore(block, &old);                                        \
        if (is_taken && moved)                                                   \
            sampler_note(moved, size, &choice, CALLER);                          \
        return moved;                                                            \
    }                                                                            \
    LONG_HALF void *moved_##name parameters {                                    \
        struct sample old;                                                       \
        bool was_taken = sampler_forget(block, &old);                            \
        void *moved = real_##name(__VA_ARGS__);                                  \
        if (was_taken && !moved && size != 0)                                    \
            sampler_restore(block, &old);                                        \
        return moved;                                                            \
    }                                                                            \
    SHORT_HALF void *our_##name parameters {                                     \
        if (sampler_is_due(size))                                                \
            return taken_##name(__VA_ARGS__);                                    \
        if (samples_may_hold(block))                                             \
            return moved_##name(__VA_ARGS__);                                    \
        return real_##name(__VA_ARGS__);                                         \
    }

REALLOCATES(realloc, (void *block, size_t size), block, size)
REALLOCATES(rallocx, (void *block, size_t size, int flags), block, size, flags)

/* libc's own calls realloc by its import, which would be counted twice. */
SHORT_HALF void *our_reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return our_realloc(block, bytes);
}

/* ---- Frees ---- */

#define FREES(name, parameters, ...)         \
    static void(*real_##name) parameters;    \
    LONG_HALF void taken_##name parameters { \
        struct sample gone;                  \
        (void)sampler_forget(block, &gone);  \
        real_##name(__VA_ARGS__);            \
    }                                        \
    SHORT_HALF void our_##name parameters {  \
        if (samples_may_hold(block))         \
            taken_##name(__VA_ARGS__);       \
        else                                 \
            real_##name(__VA_ARGS__);        \
    }

FREES(free, (void *block), block)
FREES(cfree, (void *block), block)
FREES(free_sized, (void *block, size_t size), block, size)
FREES(free_aligned_sized, (void *block, size_t align, size_t size), block, align, size)
FREES(dallocx, (void *block, int flags), block, flags)
FREES(sdallocx, (void *block, size_t size, int flags), block, size, flags)
/* operator delete and delete[]; plain, sized, nothrow, aligned and what they combine to. */
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
    { #name, (stand_in_function *)our_##name, (stand_in_function **)&real_##name }

const struct stand_in stand_ins[] = {
    ROW(malloc),
    ROW(free),
    ROW(calloc),
    ROW(realloc),
    {"reallocarray", (stand_in_function *)our_reallocarray, NULL},
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

const size_t stand_in_count = sizeof stand_ins / sizeof stand_ins[0];
