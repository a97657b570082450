/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/saved/saved_captures.h"

#include "api/base/array.h"
#include "api/profile/pprof/pprof.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC          "sondecap"
#define MAGIC_LEN      (sizeof MAGIC - 1)
#define HEAD_LEN       (MAGIC_LEN + 4)
#define MAX_FACTS      4096u
#define UNFINISHED     "unfinished-"
#define EXTENSION      ".capture"
#define MAX_PROFILE    (2048ull << 20)
#define MAX_FILES_READ 100000u /* entries read from a folder that somebody else may have filled */

struct saved_captures {
    char *dir;
    int dir_error; /* errno from creating the folder */
    uint32_t max_count;
    uint64_t max_bytes, bytes, last_id;
    Sonde__V1__Capture **items;
    size_t count, capacity;
    _Atomic uint32_t writes;
};

/* ---- The file ---- */

sonde_err saved_capture_parse(struct sonde_slice file, Sonde__V1__Capture **metadata,
                              struct sonde_slice *profile) {
    const uint8_t *bytes = (const uint8_t *)file.data;
    if (file.len < HEAD_LEN || memcmp(bytes, MAGIC, MAGIC_LEN) != 0)
        return SONDE_CORRUPT;
    const uint8_t *len = bytes + MAGIC_LEN;
    uint32_t size =
        (uint32_t)len[0] << 24 | (uint32_t)len[1] << 16 | (uint32_t)len[2] << 8 | len[3];
    if (size > MAX_FACTS || size > file.len - HEAD_LEN)
        return SONDE_CORRUPT;
    *metadata = sonde__v1__capture__unpack(NULL, size, bytes + HEAD_LEN);
    *profile = (struct sonde_slice){file.data + HEAD_LEN + size, file.len - HEAD_LEN - size};
    return *metadata ? SONDE_OK : SONDE_CORRUPT;
}

sonde_err saved_capture_split(const Sonde__V1__Capture *metadata, struct sonde_slice *profile,
                              struct sonde_slice *timeline) {
    if (metadata->timeline_bytes > profile->len)
        return SONDE_CORRUPT;
    profile->len -= metadata->timeline_bytes;
    *timeline = (struct sonde_slice){profile->data + profile->len, metadata->timeline_bytes};
    return SONDE_OK;
}

/* False if the metadata would be too long to read back. */
static bool append_head(struct sonde_buf *out, const Sonde__V1__Capture *metadata) {
    uint8_t packed[MAX_FACTS];
    size_t size = sonde__v1__capture__get_packed_size(metadata);
    if (size > sizeof packed)
        return false;
    sonde__v1__capture__pack(metadata, packed);
    const char len[] = {0, 0, (char)(size >> 8), (char)size};
    sonde_buf_append(out, MAGIC, MAGIC_LEN);
    sonde_buf_append(out, len, sizeof len);
    sonde_buf_append(out, packed, size);
    return true;
}

static int write_all(int fd, struct sonde_slice bytes) {
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.data, bytes.len);
        if (put < 0 && errno != EINTR)
            return errno;
        bytes.data += put > 0 ? put : 0;
        bytes.len -= put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static int write_file(const char *path, struct sonde_slice head, struct sonde_slice profile) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int error = write_all(fd, head);
    if (!error)
        error = write_all(fd, profile);
    if (!error && fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno;
    if (error)
        unlink(path);
    return error;
}

/* ---- The list ---- */

static bool append(struct saved_captures *saved, Sonde__V1__Capture *metadata) {
    if (!array_room(&saved->items, &saved->capacity, saved->count, 1))
        return false;
    saved->items[saved->count++] = metadata;
    saved->bytes += metadata->size_bytes;
    return true;
}

static char *path_of(const struct saved_captures *saved, uint64_t id) {
    char *path = NULL;
    if (asprintf(&path, "%s/%010llu" EXTENSION, saved->dir, (unsigned long long)id) < 0)
        return NULL;
    return path;
}

static void drop_oldest(struct saved_captures *saved) {
    char *path = path_of(saved, saved->items[0]->id);
    if (path)
        unlink(path);
    free(path);
    saved->bytes -= saved->items[0]->size_bytes;
    sonde__v1__capture__free_unpacked(saved->items[0], NULL);
    memmove(saved->items, saved->items + 1, --saved->count * sizeof *saved->items);
}

static void make_room(struct saved_captures *saved) {
    while (saved->count > 1 && (saved->count > saved->max_count || saved->bytes > saved->max_bytes))
        drop_oldest(saved);
}

static bool parse_name(const char *name, uint64_t *id) {
    char *end;
    if (name[0] < '0' || name[0] > '9')
        return false;
    errno = 0;
    *id = strtoull(name, &end, 10);
    return !errno && *id > 0 && strcmp(end, EXTENSION) == 0;
}

/* NULL if the file is not ours or not complete. */
static Sonde__V1__Capture *read_facts(int dir, const char *name) {
    char head[HEAD_LEN + MAX_FACTS];
    Sonde__V1__Capture *metadata = NULL;
    struct sonde_slice profile;
    struct stat file;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    ssize_t got = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? read(fd, head, sizeof head) : 0;
    close(fd);
    if (got <= 0 ||
        saved_capture_parse((struct sonde_slice){head, (size_t)got}, &metadata, &profile))
        return NULL;
    size_t before = (size_t)(profile.data - head);
    if ((uint64_t)file.st_size == before + metadata->size_bytes)
        return metadata;
    sonde__v1__capture__free_unpacked(metadata, NULL);
    return NULL;
}

/* Of a process that has ended: other sonded may use the same folder. A name without a pid is an
 * older sonded's. */
static bool is_abandoned(const char *name) {
    int pid = 0;
    unsigned number;
    if (strncmp(name, UNFINISHED, sizeof UNFINISHED - 1) != 0)
        return false;
    bool has_pid = sscanf(name, UNFINISHED "%d-%u", &pid, &number) == 2 && pid > 0;
    return !has_pid || pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
}

static void read_entry(struct saved_captures *saved, int dir, const char *name) {
    uint64_t id = 0;
    if (is_abandoned(name))
        unlinkat(dir, name, 0);
    if (!parse_name(name, &id) || saved->count >= MAX_FILES_READ)
        return;
    saved->last_id = id > saved->last_id ? id : saved->last_id;
    Sonde__V1__Capture *metadata = read_facts(dir, name);
    if (!metadata) {
        unlinkat(dir, name, 0);
        return;
    }
    metadata->id = id;
    if (!append(saved, metadata))
        sonde__v1__capture__free_unpacked(metadata, NULL);
}

static int by_id(const void *a, const void *b) {
    const Sonde__V1__Capture *x = *(Sonde__V1__Capture *const *)a,
                             *y = *(Sonde__V1__Capture *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static void read_folder(struct saved_captures *saved) {
    if (mkdir(saved->dir, 0700) != 0 && errno != EEXIST)
        saved->dir_error = errno;
    DIR *listing = opendir(saved->dir);
    for (struct dirent *entry; listing && (entry = readdir(listing));)
        read_entry(saved, dirfd(listing), entry->d_name);
    if (listing)
        closedir(listing);
    if (saved->count > 1)
        qsort(saved->items, saved->count, sizeof *saved->items, by_id);
    make_room(saved);
}

struct saved_captures *saved_captures_open(const struct saved_captures_options *options) {
    struct saved_captures *saved = calloc(1, sizeof *saved);
    if (!saved)
        return NULL;
    saved->max_count = options->count;
    saved->max_bytes = options->bytes;
    if (!options->dir)
        return saved;
    saved->dir = strdup(options->dir);
    if (!saved->dir) {
        free(saved);
        return NULL;
    }
    read_folder(saved);
    return saved;
}

void saved_captures_close(struct saved_captures *saved) {
    if (!saved)
        return;
    for (size_t i = 0; i < saved->count; i++)
        sonde__v1__capture__free_unpacked(saved->items[i], NULL);
    free(saved->items);
    free(saved->dir);
    free(saved);
}

/* ---- Adding ---- */

static sonde_err check_folder(const struct saved_captures *saved, struct sonde_diag *diag) {
    if (!saved->dir)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "sonded has no data directory to keep captures in: start it with "
                          "--data-dir");
    if (saved->dir_error)
        return sonde_fail_os(diag, saved->dir_error, "no folder for captures can be made");
    return SONDE_OK;
}

/* Copies the metadata by packing and unpacking it, because it must outlive its call. */
static Sonde__V1__Capture *dup_facts(const struct sonde_buf *head) {
    Sonde__V1__Capture *copy;
    struct sonde_slice rest;
    return saved_capture_parse(sonde_buf_slice(head), &copy, &rest) ? NULL : copy;
}

static sonde_err fill_draft(struct saved_captures *saved, const struct sonde_buf *head,
                            const struct sonde_buf *body, struct saved_capture_draft *draft,
                            struct sonde_diag *diag) {
    *draft = (struct saved_capture_draft){.metadata = dup_facts(head), .bytes = body->len};
    if (asprintf(&draft->path, "%s/" UNFINISHED "%d-%u", saved->dir, (int)getpid(),
                 atomic_fetch_add(&saved->writes, 1)) < 0)
        draft->path = NULL;
    int error = draft->metadata && draft->path
                    ? write_file(draft->path, sonde_buf_slice(head), sonde_buf_slice(body))
                    : ENOMEM;
    if (!error)
        return SONDE_OK;
    saved_capture_draft_drop(draft);
    return sonde_fail_os(diag, error, "the capture cannot be kept");
}

sonde_err saved_capture_write(struct saved_captures *saved, const struct sonde_profile *profile,
                              const Sonde__V1__Capture *metadata, struct saved_capture_draft *draft,
                              struct sonde_diag *diag) {
    struct sonde_buf head = {0}, body = {.limit = saved->max_bytes};
    Sonde__V1__Capture reported = *metadata;
    sonde_err err = check_folder(saved, diag);
    if (!err)
        err = sonde_pprof_write(profile, 1, &body, diag);
    size_t profile_bytes = body.len;
    if (!err && sonde_profile_timeline(profile))
        err = sonde_timeline_write(sonde_profile_timeline(profile), &body);
    if ((!err && body.failed) || err == SONDE_TOO_LARGE)
        err = sonde_fail(diag, SONDE_TOO_LARGE,
                         "the capture is larger than the %llu MiB that may be kept",
                         (unsigned long long)saved->max_bytes >> 20);
    reported.size_bytes = body.len;
    reported.timeline_bytes = body.len - profile_bytes;
    if (!err && (!append_head(&head, &reported) || head.failed))
        err = sonde_fail(diag, SONDE_TOO_LARGE,
                         "the note and the names of the capture are too long to save");
    if (!err)
        err = fill_draft(saved, &head, &body, draft, diag);
    sonde_buf_finish(&head);
    sonde_buf_finish(&body);
    return err;
}

void saved_capture_draft_drop(struct saved_capture_draft *draft) {
    if (draft->path)
        unlink(draft->path);
    free(draft->path);
    if (draft->metadata)
        sonde__v1__capture__free_unpacked(draft->metadata, NULL);
    *draft = (struct saved_capture_draft){0};
}

static void sync_folder(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/* Uses link because, unlike rename, it never replaces an existing file. */
static int give_number(struct saved_captures *saved, const char *draft_path, uint64_t *id) {
    int error = EEXIST;
    while (error == EEXIST) {
        char *path = path_of(saved, ++saved->last_id);
        error = !path ? ENOMEM : link(draft_path, path) != 0 ? errno : 0;
        free(path);
    }
    *id = saved->last_id;
    return error;
}

sonde_err saved_captures_add(struct saved_captures *saved, struct saved_capture_draft *draft,
                             const Sonde__V1__Capture **capture, struct sonde_diag *diag) {
    uint64_t id = 0;
    int error = give_number(saved, draft->path, &id);
    if (!error && append(saved, draft->metadata)) {
        *capture = draft->metadata;
        draft->metadata->id = id;
        draft->metadata = NULL;
    } else if (!error) {
        error = ENOMEM;
    }
    saved_capture_draft_drop(draft);
    if (error)
        return sonde_fail_os(diag, error, "the capture cannot be kept");
    make_room(saved);
    sync_folder(saved->dir);
    return SONDE_OK;
}

/* ---- Looking ---- */

Sonde__V1__Capture *const *saved_captures_list(const struct saved_captures *saved, size_t *count) {
    *count = saved->count;
    return saved->items;
}

const Sonde__V1__Capture *saved_captures_find(const struct saved_captures *saved, uint64_t id) {
    for (size_t i = 0; i < saved->count; i++)
        if (saved->items[i]->id == id)
            return saved->items[i];
    return NULL;
}

const Sonde__V1__Capture *saved_captures_find_equal(const struct saved_captures *saved,
                                                    const Sonde__V1__Capture *metadata) {
    for (size_t i = saved->count; i-- > 0;) {
        const Sonde__V1__Capture *item = saved->items[i];
        if (item->start_unix_ns == metadata->start_unix_ns &&
            item->duration_ms == metadata->duration_ms && item->samples == metadata->samples &&
            strcmp(item->uuid, metadata->uuid) == 0 && strcmp(item->kind, metadata->kind) == 0)
            return item;
    }
    return NULL;
}

sonde_err saved_captures_open_file(const struct saved_captures *saved, uint64_t id, int *fd,
                                   struct sonde_diag *diag) {
    char *path = saved_captures_find(saved, id) ? path_of(saved, id) : NULL;
    *fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    free(path);
    if (*fd >= 0)
        return SONDE_OK;
    return sonde_fail(
        diag, SONDE_NOT_FOUND,
        "capture %llu not found; run `sonde captures` for a list, or ask /v1/captures",
        (unsigned long long)id);
}

static sonde_err read_file(int fd, struct sonde_buf *bytes, struct sonde_diag *diag) {
    static const size_t part = 256u << 10;
    char *buffer = malloc(part);
    ssize_t got = buffer ? 1 : 0;
    int error = buffer ? 0 : ENOMEM;
    while (got > 0 && !error && !bytes->failed) {
        got = read(fd, buffer, part);
        error = got < 0 && errno != EINTR ? errno : 0;
        if (got > 0)
            sonde_buf_append(bytes, buffer, (size_t)got);
        else if (got < 0 && !error)
            got = 1;
    }
    free(buffer);
    if (!error && bytes->failed)
        error = ENOMEM;
    return error ? sonde_fail_os(diag, error, "the capture cannot be read") : SONDE_OK;
}

/* Gives the profile its timeline. */
static sonde_err add_timeline(const Sonde__V1__Capture *metadata, struct sonde_slice file,
                              struct sonde_profile *profile, struct sonde_diag *diag) {
    struct sonde_timeline *timeline;
    if (!metadata->timeline_bytes)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "this capture has no time bins: %s",
                          metadata->frequency_hz ? "it was saved by an older version"
                                                 : "it measures memory");
    sonde_err err = sonde_timeline_read(file, profile, &timeline, diag);
    if (err)
        return err;
    sonde_profile_set_timeline(profile, timeline);
    if (!timeline->is_dropped)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                      "this capture has no time bins: it would have more than %u; capture for a "
                      "shorter time or at a lower rate",
                      SONDE_TIMELINE_MAX);
}

static sonde_err read_capture(int fd, bool with_timeline, struct sonde_profile **profile,
                              struct sonde_diag *diag) {
    struct sonde_buf bytes = {0};
    struct sonde_slice body = {NULL, 0}, timeline;
    Sonde__V1__Capture *metadata = NULL;
    *profile = NULL;
    sonde_err err = read_file(fd, &bytes, diag);
    if (!err && (saved_capture_parse(sonde_buf_slice(&bytes), &metadata, &body) ||
                 saved_capture_split(metadata, &body, &timeline)))
        err = sonde_fail(diag, SONDE_CORRUPT, "the file of the capture is broken");
    if (!err)
        err = sonde_pprof_read(body, MAX_PROFILE, profile, diag);
    if (!err && with_timeline)
        err = add_timeline(metadata, timeline, *profile, diag);
    if (err) {
        sonde_profile_destroy(*profile);
        *profile = NULL;
    }
    if (metadata)
        sonde__v1__capture__free_unpacked(metadata, NULL);
    sonde_buf_finish(&bytes);
    return err;
}

sonde_err saved_capture_read(int fd, struct sonde_profile **profile, struct sonde_diag *diag) {
    return read_capture(fd, false, profile, diag);
}

sonde_err saved_capture_read_timeline(int fd, struct sonde_profile **profile,
                                      struct sonde_diag *diag) {
    return read_capture(fd, true, profile, diag);
}

sonde_err saved_capture_read_range(int fd, struct sonde_timeline_range range,
                                   struct sonde_profile **profile, struct sonde_diag *diag) {
    struct sonde_profile *whole;
    if (!range.from_ms && !range.until_ms)
        return saved_capture_read(fd, profile, diag);
    *profile = NULL;
    sonde_err err = saved_capture_read_timeline(fd, &whole, diag);
    if (!err)
        err = sonde_timeline_cut(whole, range, profile, diag);
    sonde_profile_destroy(whole);
    return err;
}
