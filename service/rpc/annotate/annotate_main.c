/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/annotate/annotate_main.h"

#include "api/settings/own_data_dir.h"
#include "service/engine/once/once.h"
#include "service/rpc/annotate/code_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REQUEST_BYTES ((size_t)16 << 20)

static sonde_err read_request(Sonde__V1__GetCodeRequest **request, struct sonde_diag *diag) {
    struct sonde_buf bytes = {.limit = REQUEST_BYTES};
    ssize_t got = 1;
    while (got > 0 && !bytes.failed) {
        char part[65536];
        got = read(STDIN_FILENO, part, sizeof part);
        if (got > 0)
            sonde_buf_append(&bytes, part, (size_t)got);
    }
    *request =
        got < 0 || bytes.failed
            ? NULL
            : sonde__v1__get_code_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    sonde_buf_finish(&bytes);
    return *request ? SONDE_OK : sonde_fail(diag, SONDE_PROTOCOL, "the request cannot be read");
}

static sonde_err write_answer(const struct annotate_answer *answer, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    Sonde__V1__Code message;
    sonde_err err = code_message_from(answer, &arena, &message);
    size_t len = err ? 0 : sonde__v1__code__get_packed_size(&message);
    uint8_t *bytes = err ? NULL : malloc(len + 1);
    if (!bytes)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde__v1__code__pack(&message, bytes);
    return once_write(bytes, len, diag);
}

static sonde_err answer(const Sonde__V1__GetCodeRequest *message, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    struct annotate_request request;
    struct annotate_answer code = {0};
    struct symbol_store *store = NULL;
    struct symbol_module *module = NULL;
    struct sonde_diag why = {0};
    pid_t pid = message->target ? message->target->pid : 0;
    sonde_err err = code_request_from(message, &arena, &request, diag);
    if (!err)
        err = once_open_store(own_data_dir(), "/proc/self/exe", &store, diag);
    if (!err)
        err = annotate_open(store, message->path, message->build_id, pid, &module, &why, diag);
    if (!err)
        err = annotate_module(store, module, &request, &code, diag);
    if (code.without_code[0] && why.text[0])
        snprintf(code.without_code, sizeof code.without_code, "%s", why.text);
    return err ? err : write_answer(&code, diag);
}

void annotate_main(int argc, char **argv) {
    Sonde__V1__GetCodeRequest *request = NULL;
    struct sonde_diag diag = {0};
    if (!once_is_asked(argc, argv, ANNOTATE_ARGUMENT))
        return;
    sonde_err err = once_begin(&diag);
    if (!err)
        err = read_request(&request, &diag);
    if (!err)
        err = answer(request, &diag);
    once_end(err, &diag);
}
