/* SPDX-License-Identifier: Apache-2.0
 *
 * Well-formed requests with arbitrary contents, so that every input reaches a route. Two bytes
 * choose route and method. Lines follow: script, target's prefix, query, Accept, Accept-Encoding,
 * Content-Type, User-Agent, another header. The rest is the body. The answer must be one complete
 * HTTP answer with the common headers, and not a server error unless the service misbehaves. */
#include "gateway/routes.h"
#include "tests/fuzz/gateway/gateway_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAYS 0x3c /* the client waits for its answer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sonde_slice next_line(struct sonde_slice *rest) {
    const char *end = memchr(rest->data, '\n', rest->len);
    struct sonde_slice line = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
    size_t used = end ? line.len + 1 : line.len;
    rest->data += used;
    rest->len -= used;
    return line;
}

/* Leaves out bytes for which h2o itself would refuse the request. */
static void append_field(struct sonde_buf *out, struct sonde_slice text, const char *but) {
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] > 0x1f && text.data[i] != 0x7f &&
            !strchr(but, text.data[i]))
            sonde_buf_putc(out, text.data[i]);
}

static void append_header(struct sonde_buf *out, const char *name, struct sonde_slice *rest) {
    struct sonde_slice value = next_line(rest);
    if (value.len == 0)
        return;
    sonde_buf_printf(out, "%s: ", name);
    append_field(out, value, "");
    sonde_buf_puts(out, "\r\n");
}

static void append_request(struct sonde_buf *out, uint8_t route, uint8_t method,
                           struct sonde_slice *rest) {
    static const char *const methods[] = {"GET", "POST", "PUT", "HEAD", "DELETE"};
    static const char *const others[] = {"authorization", "sec-fetch-site", "origin", "host"};
    size_t count;
    const struct route *table = route_table(&count);
    sonde_buf_printf(out, "%s ", methods[method % 5]);
    append_field(out, next_line(rest), " ?#");
    sonde_buf_puts(out, table[route % count].path);
    sonde_buf_putc(out, '?');
    append_field(out, next_line(rest), " #");
    sonde_buf_puts(out, " HTTP/1.1\r\n");
    append_header(out, "accept", rest);
    append_header(out, "accept-encoding", rest);
    append_header(out, "content-type", rest);
    append_header(out, "user-agent", rest);
    append_header(out, others[method / 5 % 4], rest);
    sonde_buf_printf(out, "content-length: %zu\r\n\r\n", rest->len);
    sonde_buf_append(out, rest->data, rest->len);
}

static void must(bool holds, const char *what, const struct sonde_buf *answer) {
    if (holds)
        return;
    fprintf(stderr, "%s\n%.*s\n", what, (int)answer->len, answer->data);
    abort();
}

/* Checks the status line, the common headers and the length of the body. */
static void check_answer(const struct sonde_buf *answer, bool is_head, bool good_service) {
    if (answer->len == 0 && !good_service)
        return; /* it was cut before the first byte of a result */
    const char *head_end = memmem(answer->data, answer->len, "\r\n\r\n", 4);
    must(head_end, "no head", answer);
    size_t head = (size_t)(head_end - answer->data);
    must(memcmp(answer->data, "HTTP/1.1 ", 9) == 0, "no HTTP answer", answer);
    int status = atoi(answer->data + 9);
    must(status >= 200 && status < 600, "no such status", answer);
    must(!good_service || status < 500 || status == 501, "a server error without a reason", answer);
    must(memmem(answer->data, head, "x-content-type-options: nosniff", 31), "no nosniff", answer);
    must(memmem(answer->data, head, "content-security-policy: ", 25), "no policy", answer);
    const char *length = memmem(answer->data, head, "content-length: ", 16);
    size_t body = answer->len - head - 4;
    must(is_head ? body == 0 : !good_service || !length || body == strtoul(length + 16, NULL, 10),
         "wrong content-length", answer);
    if (memmem(answer->data, head, "content-type: text/html", 23))
        must(!memmem(head_end, body, "<script>alert", 13), "markup from the service", answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    struct sonde_slice rest = {(const char *)data + 2, size - 2};
    struct sonde_slice script = next_line(&rest);
    struct sonde_buf request = {0}, answer = {0};
    char stay[260] = {STAYS};
    size_t more = script.len < 256 ? script.len : 256;
    if (more) {
        stay[0] = (char)(STAYS | (script.data[0] & 0xc0));
        memcpy(stay + 2, script.data, more);
    }
    append_request(&request, data[0], data[1], &rest);
    fixture_play(sonde_buf_slice(&request), (struct sonde_slice){stay, more + 2}, &answer);
    check_answer(&answer, data[1] % 5 == 3, more == 0);
    sonde_buf_finish(&request);
    sonde_buf_finish(&answer);
    return 0;
}
