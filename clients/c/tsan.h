/* SPDX-License-Identifier: Apache-2.0
 *
 * libgrpc is not instrumented, so ThreadSanitizer cannot see that what happened before a batch was
 * started happened before its tag came out of the completion queue. These two tell it. Empty in
 * every other build. (service/rpc has its own: the two sides share no code.) */
#ifndef SONDE_CLIENTS_C_TSAN_H
#define SONDE_CLIENTS_C_TSAN_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CLIENT_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define CLIENT_TSAN 1
#endif

#ifdef CLIENT_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define client_tag_sent(tag) __tsan_release(tag)
#define client_tag_came(tag) __tsan_acquire(tag)
#else
#define client_tag_sent(tag) ((void)(tag))
#define client_tag_came(tag) ((void)(tag))
#endif

#endif
