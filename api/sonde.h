/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde inside a program: link libsonde.so and call sonde_start once, or preload it and call
 * nothing at all. A library that is linked (or opened) does nothing before that call, so the
 * options decide; one that is preloaded has started before main, as its environment says.
 *
 * The guest connects to sonded at SONDE_SOCKET (or the path given here), answers when somebody asks
 * for a profile, and costs nothing otherwise: one sleeping thread. It never prints, never aborts,
 * never waits for sonded, and keeps no lock that the program could meet. sonde_label_* and
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
    const char *name;        /* how the target is called; NULL = SONDE_NAME, else base of argv[0] */
    const char *socket_path; /* NULL = SONDE_SOCKET or the default of sonded */
};

/* Starts the guest. options may be NULL. 0, or an errno: EALREADY when it runs already, and then
 * the options count for nothing (under `sonde run` or LD_PRELOAD: whoever starts the program has
 * the say); EAGAIN when no thread could be made; EINVAL when options->size is too small. Any
 * thread; not signal-safe. */
SONDE_API int sonde_start(const struct sonde_start_options *options);

/* Ends captures, restores signal handlers, closes the connection and joins the control thread. Any
 * thread; not signal-safe. */
SONDE_API void sonde_stop(void);

/* A sentence on how the guest fares: "connected, idle", "no sonded at /run/sonde/guest.sock",
 * "refused: ...". Static or thread-local memory, valid until the next call in this thread. */
SONDE_API const char *sonde_status(void);

/* A label for the calling thread's samples from now on ("worker", "compaction"): at most 63 bytes
 * are kept; NULL removes it. The text is copied. Up to 1024 different texts a process, later ones
 * are ignored. */
SONDE_API void sonde_label_thread(const char *text);

/* A number (request or trace id) for the calling thread's samples from now on; 0 removes it.
 * Samples carry it as the numeric label "request". One store: cheap enough for every request. */
SONDE_API void sonde_label_request(uint64_t id);

/* Tells of a stack that is not a thread's own (coroutines, fibers), so that samples taken on it are
 * walked to its end. [low, low+size); at most 4096 at a time: ENOSPC. 0 or an errno.
 * sonde_stack_remove before the memory is freed. */
SONDE_API int sonde_stack_add(const void *low, size_t size);
SONDE_API void sonde_stack_remove(const void *low);

#ifdef __cplusplus
}
#endif

#endif
