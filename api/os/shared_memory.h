/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that another process hands over as a descriptor. A peer can pass anything: a device, a
 * FIFO whose read blocks, an ordinary file that it cuts once it is mapped (which is SIGBUS for us),
 * or memory whose pages do not exist yet. These functions never read from the descriptor, so they
 * do not block. They need only libc, because the guest links them. Any thread. */
#ifndef SONDE_API_OS_SHARED_MEMORY_H
#define SONDE_API_OS_SHARED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* True for a memfd (a regular file on tmpfs) that has all of `seals` (F_SEAL_*, not 0) and between
 * min_bytes and max_bytes; *bytes is its size. With F_SEAL_SHRINK, memory up to there can be mapped
 * and read without SIGBUS. */
bool shared_memory_is_sealed(int fd, int seals, uint64_t min_bytes, uint64_t max_bytes,
                             uint64_t *bytes);
/* Of sealed memory: whether the first `bytes` have no hole. Reading a hole allocates memory for the
 * reader, so a sender could make us use memory that it does not have itself. */
bool shared_memory_is_whole(int fd, uint64_t bytes);

/* Maps sealed memory for reading, or returns NULL with errno. The mapping is private: before Linux
 * 6.7, the kernel refuses a shared one of memory with F_SEAL_WRITE, even for reading (EPERM). Both
 * have the same pages as long as nobody writes, which the seal prevents. Memory that its owner
 * still changes must be mapped with MAP_SHARED and has no such seal. */
const void *shared_memory_map(int fd, uint64_t bytes);

#endif
