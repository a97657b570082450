/* SPDX-License-Identifier: Apache-2.0
 *
 * Debian's libgrpc is not instrumented, so ThreadSanitizer does not know that starting a batch
 * happens before its tag leaves the completion queue. These two macros declare that order; they are
 * empty in other builds. */
#ifndef SONDE_SERVICE_CORE_TSAN_H
#define SONDE_SERVICE_CORE_TSAN_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CORE_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define CORE_TSAN 1
#endif

#ifdef CORE_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define core_tag_sent(tag) __tsan_release(tag)
#define core_tag_came(tag) __tsan_acquire(tag)
#else
#define core_tag_sent(tag) ((void)(tag))
#define core_tag_came(tag) ((void)(tag))
#endif

#endif
