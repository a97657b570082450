/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/identity.h"

#include "service/store/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MACHINE_ID "/etc/machine-id"
#define BOOT_ID    "/proc/sys/kernel/random/boot_id"

/* Everything up to the size of `text`, which is a text then. */
static size_t read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len > 0 ? (size_t)len : 0;
}

/* The stored number, and the epoch of this start. False: there is none. */
static bool read_stored(const char *path, uint64_t *number, uint32_t *epoch) {
    char text[64], end = 0;
    (void)read_text(path, text, sizeof text);
    bool is_whole = sscanf(text, "%16" SCNx64 " %" SCNu32 "%c", number, epoch, &end) == 3 &&
                    end == '\n' && *number != 0 && *epoch != 0 && *epoch < UINT32_MAX;
    ++*epoch;
    return is_whole;
}

/* Of a number and the machine, so that a copy of the data directory on another machine differs. */
static uint64_t hash_with_machine(uint64_t number) {
    char bytes[sizeof number + 64];
    memcpy(bytes, &number, sizeof number);
    size_t len = read_text(MACHINE_ID, bytes + sizeof number, sizeof bytes - sizeof number);
    uint64_t hash = store_hash(bytes, sizeof number + len);
    return hash ? hash : 1;
}

/* Machines that were cloned early at boot may draw equal random numbers, so their ids and their
 * clocks are added. */
uint64_t identity_draw_source(void) {
    struct {
        uint64_t random, machine;
        struct timespec now;
        char boot[64];
    } seed;
    memset(&seed, 0, sizeof seed);
    if (getrandom(&seed.random, sizeof seed.random, 0) != sizeof seed.random)
        seed.random = (uint64_t)getpid();
    seed.machine = hash_with_machine(0);
    clock_gettime(CLOCK_REALTIME, &seed.now);
    (void)read_text(BOOT_ID, seed.boot, sizeof seed.boot);
    uint64_t source = store_hash(&seed, sizeof seed);
    return source ? source : 1;
}

static bool write_durably(const char *path, const char *text) {
    char other[4096 + 8];
    snprintf(other, sizeof other, "%s.new", path);
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool is_written = write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0;
    close(fd);
    return is_written && rename(other, path) == 0;
}

/* The new name of the file must be durable, too. */
static void sync_directory(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

sonde_err identity_begin(const char *dir, struct identity *identity, struct sonde_diag *diag) {
    char path[4096], text[64];
    uint64_t number = 0;
    uint32_t epoch = 0;
    snprintf(path, sizeof path, "%s/source", dir);
    if (!read_stored(path, &number, &epoch)) {
        number = identity_draw_source();
        epoch = 1;
    }
    *identity = (struct identity){identity_draw_source(), hash_with_machine(number), epoch};
    snprintf(text, sizeof text, "%016" PRIx64 " %" PRIu32 "\n", number, epoch);
    if (!write_durably(path, text))
        return sonde_fail_os(diag, errno, "%s cannot be written", path);
    sync_directory(dir);
    return SONDE_OK;
}
