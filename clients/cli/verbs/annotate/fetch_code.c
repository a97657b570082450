/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/fetch_code.h"

#include "clients/annotate/code_request.h"
#include "clients/cli/run/sonded_once.h"

static sonde_err pack(const Sonde__V1__GetCodeRequest *message, struct sonde_buf *bytes) {
    char *to = sonde_buf_extend(bytes, sonde__v1__get_code_request__get_packed_size(message));
    if (!to)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__get_code_request__pack(message, (uint8_t *)to);
    return SONDE_OK;
}

static sonde_err ask(const Sonde__V1__GetCodeRequest *message, Sonde__V1__Code **code,
                     struct sonde_diag *diag) {
    struct sonde_buf question = {0}, answer = {0};
    sonde_err err = pack(message, &question);
    if (!err)
        err = sonded_once_bytes("--annotate", sonde_buf_slice(&question), &answer, diag);
    if (!err) {
        *code = sonde__v1__code__unpack(NULL, answer.len, (const uint8_t *)answer.data);
        if (!*code)
            err = sonde_fail(diag, SONDE_PROTOCOL, "sonded's answer cannot be read");
    }
    sonde_buf_finish(&question);
    sonde_buf_finish(&answer);
    return err;
}

sonde_err fetch_code(const struct fetch_request *request, Sonde__V1__Code **code,
                     struct sonde_diag *diag) {
    struct code_request question;
    Sonde__V1__TargetSelector target = SONDE__V1__TARGET_SELECTOR__INIT;
    *code = NULL;
    sonde_err err = code_request_init(&question, request->subjects, request->subject_count,
                                      request->function, diag);
    target.pid = request->pid;
    if (request->pid > 0)
        question.message.target = &target;
    if (!err)
        err = ask(&question.message, code, diag);
    code_request_finish(&question);
    return err;
}
