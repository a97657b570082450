/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/guest/guest_frames.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>
#include <unistd.h>

static uint32_t read_length(const char *data) {
    const uint8_t *bytes = (const uint8_t *)data;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static sonde_err decode(const char *data, uint32_t len, frames_on_message *on_message,
                        void *context) {
    frames_from_guest message = sonde_guest_v1_FromGuest_init_zero;
    pb_istream_t stream = pb_istream_from_buffer((const pb_byte_t *)data, len);
    if (!pb_decode(&stream, sonde_guest_v1_FromGuest_fields, &message))
        return SONDE_PROTOCOL;
    return on_message(context, &message);
}

/* Decodes the complete frames in data until the handler pauses; *used is their size. */
static sonde_err take_frames(const struct frames *frames, const char *data, size_t len,
                             size_t *used, frames_on_message *on_message, void *context) {
    *used = 0;
    while (len - *used >= 4 && !frames->is_paused) {
        uint32_t length = read_length(data + *used);
        if (length == 0 || length > FRAMES_MAX_BYTES)
            return SONDE_PROTOCOL;
        if (len - *used - 4 < length)
            return SONDE_OK;
        sonde_err err = decode(data + *used + 4, length, on_message, context);
        if (err)
            return err;
        *used += 4 + length;
    }
    return SONDE_OK;
}

sonde_err frames_feed(struct frames *frames, const char *data, size_t len,
                      frames_on_message *on_message, void *context) {
    struct sonde_buf *partial = &frames->partial;
    frames->is_paused = false;
    if (partial->len > 0) {
        sonde_buf_append(partial, data, len);
        if (partial->failed)
            return SONDE_OUT_OF_MEMORY;
        data = partial->data;
        len = partial->len;
    }
    size_t used;
    sonde_err err = take_frames(frames, data, len, &used, on_message, context);
    if (err)
        return err;
    struct sonde_buf rest = {0};
    if (used < len)
        sonde_buf_append(&rest, data + used, len - used);
    sonde_buf_finish(partial);
    *partial = rest;
    return rest.failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

sonde_err frames_add_fd(struct frames *frames, int fd) {
    if (frames->fd_count == FRAMES_MAX_FDS) {
        close(fd);
        return SONDE_PROTOCOL;
    }
    frames->fds[frames->fd_count++] = fd;
    return SONDE_OK;
}

int frames_take_fd(struct frames *frames) {
    if (frames->fd_count == 0)
        return -1;
    int fd = frames->fds[0];
    frames->fd_count--;
    memmove(&frames->fds[0], &frames->fds[1], frames->fd_count * sizeof frames->fds[0]);
    return fd;
}

void frames_finish(struct frames *frames) {
    while (frames->fd_count > 0)
        close(frames->fds[--frames->fd_count]);
    sonde_buf_finish(&frames->partial);
}

size_t frames_encode(const frames_to_guest *message, char out[FRAMES_TO_BYTES]) {
    pb_ostream_t stream = pb_ostream_from_buffer((pb_byte_t *)out + 4, FRAMES_TO_BYTES - 4);
    if (!pb_encode(&stream, sonde_guest_v1_ToGuest_fields, message))
        return 0;
    uint32_t len = (uint32_t)stream.bytes_written;
    for (int i = 0; i < 4; i++)
        out[i] = (char)(len >> (8 * i));
    return 4 + len;
}
