/* SPDX-License-Identifier: Apache-2.0
 *
 * A guest that floods sonded: map_flood SOCKET real|claimed|frames LIBRARY FOLDER.
 *
 * "real" maps pages of many copies of the library, MAPPINGS in all, and reports them without end,
 * 8,000 per generation. No two consecutive generations have a mapping in common. "claimed" reports
 * mappings of the same files that do not exist. "frames" sends maps without mappings, from many
 * connections. Prints "flooding" when it has begun. Encodes the frames of guest.proto itself, and
 * reconnects if sonded hangs up. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES          1000u
#define MAPPINGS       30000u
#define PER_GENERATION 8000u
#define PER_FRAME      16u
#define CROWD          32 /* connections of "frames" */
#define PAGE           4096u
#define MARK           "SONDE-FLOOD-ID" /* in the library's build-id; each copy gets its own */

struct file {
    char path[200];
    struct stat status;
    int fd;
};

static struct file files[FILES];
static uint64_t starts[MAPPINGS];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void write_copies(const char *library, const char *folder) {
    static char content[1 << 20];
    int fd = open(library, O_RDONLY);
    ssize_t len = read(fd, content, sizeof content);
    char *mark = len > 0 ? memmem(content, (size_t)len, MARK, strlen(MARK)) : NULL;
    if (!mark)
        die(library);
    close(fd);
    for (uint32_t i = 0; i < FILES; i++) {
        struct file *file = &files[i];
        snprintf(file->path, sizeof file->path, "%s/%u.so", folder, i);
        file->fd = open(file->path, O_RDWR | O_CREAT | O_TRUNC, 0700);
        memcpy(mark, &i, sizeof i);
        if (file->fd < 0 || write(file->fd, content, (size_t)len) != len ||
            fstat(file->fd, &file->status) != 0)
            die(file->path);
    }
}

/* Neighbours are of different files, so that the kernel does not merge them. */
static void map_page(uint32_t i, void *at) {
    void *page = mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0),
                      files[i % FILES].fd, 0);
    if (page == MAP_FAILED)
        die("mmap");
    starts[i] = (uint64_t)(uintptr_t)page;
}

struct text {
    uint8_t bytes[16384];
    size_t len;
};

static void add_varint(struct text *text, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        text->bytes[text->len++] = (uint8_t)(value | 0x80);
    text->bytes[text->len++] = (uint8_t)value;
}

static void add_number(struct text *text, uint32_t field, uint64_t value) {
    add_varint(text, field << 3);
    add_varint(text, value);
}

static void add_bytes(struct text *text, uint32_t field, const void *bytes, size_t len) {
    add_varint(text, field << 3 | 2);
    add_varint(text, len);
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

/* Reads and drops what sonded sends, including descriptors, which the kernel closes. */
static void drop_answers(int link) {
    static char bytes[65536];
    while (recv(link, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
}

static int send_frame(int link, uint32_t tag, const struct text *body) {
    static struct text frame;
    frame.len = 4;
    add_bytes(&frame, tag, body->bytes, body->len);
    uint32_t len = (uint32_t)frame.len - 4;
    memcpy(frame.bytes, &len, sizeof len);
    drop_answers(link);
    return send(link, frame.bytes, frame.len, MSG_NOSIGNAL) == (ssize_t)frame.len;
}

static int attach(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text hello = {.len = 0};
    uint8_t uuid[16];
    int link = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(link, (struct sockaddr *)&address, sizeof address) != 0)
        die(path);
    if (getrandom(uuid, sizeof uuid, 0) != sizeof uuid)
        die("getrandom");
    add_number(&hello, 1, 1);
    add_bytes(&hello, 3, "flood", 5);
    add_bytes(&hello, 4, uuid, sizeof uuid);
    send_frame(link, 1, &hello);
    return link;
}

static void add_mapping(struct text *maps, uint32_t i, int is_claimed) {
    const struct file *file = &files[i % FILES];
    struct text mapping = {.len = 0};
    uint64_t start = is_claimed ? 0x10000000000ull + 2ull * PAGE * i : starts[i];
    add_number(&mapping, 1, start);
    add_number(&mapping, 2, start + PAGE);
    add_number(&mapping, 4, major(file->status.st_dev));
    add_number(&mapping, 5, minor(file->status.st_dev));
    add_number(&mapping, 6, file->status.st_ino + (is_claimed ? 1 : 0));
    add_bytes(&mapping, 7, file->path, strlen(file->path));
    add_bytes(maps, 3, mapping.bytes, mapping.len);
}

static int send_generation(int link, uint64_t generation, int is_claimed) {
    for (uint32_t at = 0; at < PER_GENERATION; at += PER_FRAME) {
        struct text maps = {.len = 0};
        add_number(&maps, 1, generation);
        if (at + PER_FRAME >= PER_GENERATION)
            add_number(&maps, 2, 1);
        for (uint32_t i = 0; i < PER_FRAME; i++)
            add_mapping(&maps, (uint32_t)((generation * PER_GENERATION + at + i) % MAPPINGS),
                        is_claimed);
        if (!send_frame(link, 3, &maps))
            return 0;
    }
    return 1;
}

/* Generations without mappings, which are the most work per byte, from many connections at once. */
static void flood_frames(const char *path) {
    static char frames[65536];
    struct text maps = {.len = 0}, frame = {.len = 4};
    size_t len = 0;
    add_number(&maps, 1, 1);
    add_number(&maps, 2, 1);
    add_bytes(&frame, 3, maps.bytes, maps.len);
    frame.bytes[0] = (uint8_t)(frame.len - 4);
    for (; len + frame.len <= sizeof frames; len += frame.len)
        memcpy(frames + len, frame.bytes, frame.len);
    int links[CROWD];
    size_t sent[CROWD] = {0};
    for (int i = 0; i < CROWD; i++)
        links[i] = attach(path);
    puts("flooding");
    fflush(stdout);
    for (int i = 0;; i = (i + 1) % CROWD) {
        drop_answers(links[i]);
        ssize_t put = send(links[i], frames + sent[i], len - sent[i], MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put >= 0) {
            sent[i] = (sent[i] + (size_t)put) % len;
        } else if (errno != EAGAIN) {
            close(links[i]);
            links[i] = attach(path);
            sent[i] = 0;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    if (strcmp(argv[2], "frames") == 0)
        flood_frames(argv[1]);
    int is_claimed = strcmp(argv[2], "claimed") == 0;
    write_copies(argv[3], argv[4]);
    for (uint32_t i = 0; i < MAPPINGS; i++)
        map_page(i, NULL);
    int link = attach(argv[1]);
    for (uint64_t generation = 1;; generation++) {
        for (uint32_t i = 0; i < 16; i++) { /* what was reported changes meanwhile */
            uint32_t changed = (uint32_t)(generation * 16 + i) % MAPPINGS;
            map_page(changed, (void *)(uintptr_t)starts[changed]);
        }
        if (!send_generation(link, generation, is_claimed)) {
            close(link);
            link = attach(argv[1]);
        }
        if (generation == 4 && puts("flooding") >= 0)
            fflush(stdout);
    }
}
