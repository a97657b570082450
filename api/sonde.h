/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde inside a program. Either preload libsonde.so and call nothing, or link it and call
 * sonde_start once. A preloaded library starts before main, with the settings of its environment. A
 * linked (or dlopened) library does nothing until sonde_start, whose options then apply.
 *
 * The guest connects to sonded at SONDE_SOCKET, or at the path given here, and answers when
 * somebody asks for a profile. Otherwise it costs nothing but one sleeping thread. It never prints,
 * aborts, waits for sonded, or holds a lock that the program could wait for. sonde_label_* and
 * sonde_stack_* are wait-free and async-signal-safe. */
#ifndef SONDE_H
#define SONDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SONDE_API __attribute__((visibility("default")))

struct sonde_start_options {
    size_t size;             /* sizeof(struct sonde_start_options) */
    const char *name;        /* the target's name; NULL = SONDE_NAME, or the base of argv[0] */
    const char *socket_path; /* NULL = SONDE_SOCKET, or sonded's default path */
};

/* Starts the guest. options may be NULL; its strings are copied. Returns 0 or an errno: EALREADY if
 * the guest is running already, in which case the options are ignored (under `sonde run` and
 * LD_PRELOAD, whoever starts the program decides); EAGAIN if no thread or descriptor is available;
 * EINVAL if options->size is too small; ENOSYS if the C library is not glibc. Any thread; not
 * async-signal-safe. */
SONDE_API int sonde_start(const struct sonde_start_options *options);

/* Ends captures, restores signal handlers, closes the connection and joins the guest's thread. Any
 * thread; not async-signal-safe. */
SONDE_API void sonde_stop(void);

/* The guest's state in words: "connected, idle", "no sonded at /run/sonde/guest.sock", "refused:
 * ...". The text is valid until the calling thread's next call. Any thread; not
 * async-signal-safe. */
SONDE_API const char *sonde_status(void);

/* Labels the calling thread's samples from now on ("worker", "compaction"); NULL removes the label.
 * The text is copied, at most 63 bytes of it. A process can have 1024 different texts; further ones
 * are ignored. */
SONDE_API void sonde_label_thread(const char *text);

/* Adds a number, such as a request or trace id, to the calling thread's samples from now on; 0
 * removes it. Samples have it as the numeric label "request". One store: cheap enough for every
 * request. */
SONDE_API void sonde_label_request(uint64_t id);

/* Registers [low, low + size) as a stack that is not a thread's own, for coroutines and fibers:
 * samples taken on it are then walked to its end. Call sonde_stack_remove before the memory is
 * freed. Returns 0 or an errno: ENOSPC if 4096 stacks are registered; EINVAL if low is NULL or size
 * is below 64 bytes. */
SONDE_API int sonde_stack_add(const void *low, size_t size);
SONDE_API void sonde_stack_remove(const void *low);

#ifdef __cplusplus
}
#endif

#endif
