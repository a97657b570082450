/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hostile host sends: messages of Collect, each after its length as two bytes. */
#include "clients/collect/host/decode.h"

#include <stdlib.h>

static void read_message(struct decoder *decoder, const uint8_t *data, size_t size) {
    struct sonde_diag diag = {0};
    struct decoded_entry *entries = NULL;
    Sonde__V1__CollectResponse *response = sonde__v1__collect_response__unpack(NULL, size, data);
    if (!response)
        return;
    if (!response->hello ||
        decoder_hello(decoder, response->hello, "host", NULL, 0, &diag) == SONDE_OK)
        (void)!decoder_read(decoder, response, NULL, NULL, &entries, &diag);
    for (const struct decoded_entry *at = entries; at; at = at->next) {
        Sonde__V1__WriteRequest *request =
            sonde__v1__write_request__unpack(NULL, at->bytes.len, (const uint8_t *)at->bytes.data);
        if (!request || at->bytes.len > DECODE_MAX_ENTRY)
            abort();
        sonde__v1__write_request__free_unpacked(request, NULL);
    }
    decoded_entry_free(entries);
    sonde__v1__collect_response__free_unpacked(response, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct decoder decoder;
    decoder_init(&decoder, NULL);
    while (size >= 2) {
        size_t len = (size_t)data[0] << 8 | data[1];
        data += 2;
        size -= 2;
        len = len < size ? len : size;
        read_message(&decoder, data, len);
        data += len;
        size -= len;
    }
    decoder_finish(&decoder);
    return 0;
}
