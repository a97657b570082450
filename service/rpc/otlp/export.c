/* SPDX-License-Identifier: Apache-2.0
 *
 * Export of OTLP profiles: a collector's profiles become windows of history. The answer is sent
 * when they are durable. Errors follow OTLP: UNAVAILABLE asks the sender to repeat the request,
 * other errors would come again. */
#include "api/base/clock.h"
#include "service/engine/pool.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/query.h"
#include "service/rpc/otlp/delivery.h"

#include <stdlib.h>
#include <time.h>

struct exporting {
    struct rpc_call *call;
    struct rpc_history *history;
    const otlp_request *request;
    struct engine_work work;
    struct loop_message done;
    struct otlp_delivery delivery;
    struct store_put_result result;
    sonde_err err;
    struct sonde_diag diag;
};

static void reply(struct exporting *exporting) {
    otlp_response response = OTLP_RESPONSE_INIT;
    otlp_partial_success partial = OTLP_PARTIAL_INIT;
    const struct otlp_delivery *delivery = &exporting->delivery;
    partial.rejected_profiles = delivery->rejected;
    partial.error_message = (char *)delivery->rejection;
    if (delivery->rejected)
        response.partial_success = &partial;
    rpc_call_note(exporting->call, " windows=%u duplicates=%u rejected=%lld",
                  exporting->result.stored, exporting->result.duplicates,
                  (long long)delivery->rejected);
    rpc_reply(exporting->call, &response.base);
}

static void on_done(struct loop_message *message) {
    struct exporting *exporting = container_of(message, struct exporting, done);
    struct rpc_call *call = exporting->call;
    exporting->history->writes--;
    if (exporting->err)
        rpc_finish(call, exporting->err, &exporting->diag);
    else
        reply(exporting);
    otlp_delivery_finish(&exporting->delivery);
    free(exporting);
    rpc_call_drop(call);
}

static void run(struct engine_work *work) {
    struct exporting *exporting = container_of(work, struct exporting, work);
    exporting->err = otlp_delivery_read(exporting->request, clock_ns(CLOCK_REALTIME),
                                        &exporting->delivery, &exporting->diag);
    if (!exporting->err)
        exporting->err = store_put(exporting->history->store, &exporting->delivery.batch,
                                   &exporting->result, &exporting->diag);
    exporting->done.run = on_done;
    loop_post(rpc_call_server(exporting->call)->loop, &exporting->done);
}

void rpc_otlp_export(struct rpc_call *call, const ProtobufCMessage *message) {
    struct rpc_history *history = history_of(call);
    struct sonde_diag diag = {0};
    sonde_err err = SONDE_OK;
    if (!history)
        return;
    if (history->writes >= HISTORY_WRITES)
        err =
            sonde_fail(&diag, SONDE_UNAVAILABLE, "%u deliveries are being stored; the limit is %d",
                       history->writes, HISTORY_WRITES);
    struct exporting *exporting = err ? NULL : calloc(1, sizeof *exporting);
    if (!exporting) {
        rpc_finish(call, err ? err : SONDE_OUT_OF_MEMORY, &diag);
        return;
    }
    exporting->call = call;
    exporting->history = history;
    exporting->request = (const void *)message;
    exporting->work.run = run;
    history->writes++;
    rpc_call_take(call); /* dropped in on_done */
    pool_add(history->writers, &exporting->work);
}
