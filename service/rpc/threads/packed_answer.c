/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/threads/packed_answer.h"

#include "service/rpc/base/text.h"

#include <stdlib.h>

static void reply(struct loop_message *message) {
    struct packed_answer *answer = container_of(message, struct packed_answer, message);
    struct rpc_call *call = answer->call;
    if (answer->err) {
        rpc_finish(call, answer->err, &answer->diag);
    } else {
        rpc_call_note(call, "%s", answer->note);
        rpc_reply_slice(call, answer->packed);
    }
    rpc_call_drop(call);
    free(answer);
}

void packed_answer_begin(struct packed_answer *answer, struct rpc_call *call,
                         const struct engine_selector *target) {
    answer->message.run = reply;
    answer->call = call;
    rpc_call_note(call, " target=%s pid=%d", rpc_text(rpc_call_arena(call), target->name),
                  (int)target->pid);
    rpc_call_take(call);
}

void packed_answer_post(struct packed_answer *answer) {
    loop_post(rpc_call_server(answer->call)->loop, &answer->message);
}
