/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/json.h"

#include "api/json/json.h"

#include <stdio.h>

void json_text(struct sonde_buf *out, const char *text) {
    sonde_json_string(out, sonde_slice_of(text));
}

void json_print(const ProtobufCMessage *message) {
    struct sonde_buf text = {0};
    sonde_json_message(&text, message);
    if (!text.failed)
        puts(text.data);
    fflush(stdout);
    sonde_buf_finish(&text);
}
