/* SPDX-License-Identifier: Apache-2.0
 *
 * Receivers' answers. The first byte chooses how the rest is read. Texts must be printable and
 * pauses bounded. */
#include "service/export/answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct export_answer *answer) {
    size_t len = strnlen(answer->text, sizeof answer->text);
    if (len == sizeof answer->text || answer->wait_ms > ANSWER_MAX_WAIT_S * 1000u ||
        answer->rejected > UINT32_MAX)
        abort();
    for (size_t i = 0; i < len; i++)
        if (answer->text[i] < ' ' || answer->text[i] >= 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct export_answer answer = {0};
    if (size < 2)
        return 0;
    char *copy = malloc(size - 1); /* of the exact size, so that a sanitizer sees its end */
    memcpy(copy, data + 2, size - 2);
    copy[size - 2] = 0;
    struct sonde_slice body = {copy, size - 2};
    switch (data[0] % 4) {
    case 0:
        answer_of_http(400 + data[1], data[1] - 100, body, false, &answer);
        break;
    case 1:
        answer_of_http(400 + data[1], data[1], body, true, &answer);
        break;
    case 2:
        answer_of_grpc(data[1] % 20, copy, body, &answer);
        break;
    default:
        answer_read_partial(body, &answer);
    }
    check(&answer);
    free(copy);
    return 0;
}
