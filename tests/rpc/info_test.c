/* SPDX-License-Identifier: Apache-2.0
 *
 * What GetInfo says of the service. */
#include "api/version.h"
#include "tests/rpc/setup.h"
#include "tests/unit/check.h"

#include <unistd.h>

static struct setup setup;

static sonde_err unary(const struct client_method *method, const void *request, void *response,
                       struct sonde_diag *diag) {
    return client_unary(setup.client, method, request, 5000, response, diag);
}

static void free_message(void *message) {
    protobuf_c_message_free_unpacked(message, NULL);
}

TEST(get_info_returns_versions_limits_and_counters) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    Sonde__V1__Info *info = NULL;
    setup_begin(&setup);
    CHECK_INT(unary(&client_get_info, &request, &info, NULL), ==, SONDE_OK);
    CHECK_STR(info->version, SONDE_VERSION);
    CHECK_INT(info->pid, ==, getpid());
    CHECK_INT(info->targets, ==, 1);
    CHECK_INT(info->captures_limit_per_target, ==, 64);
    CHECK_INT(info->samples_total, ==, 123456789012);
    CHECK_INT(info->n_drops_total, ==, 1);
    CHECK_STR(info->drops_total[0]->cause, "ring_full");
    CHECK_INT(info->resident_bytes, >, 1 << 20);
    CHECK_INT(info->cpu_ns, >, 0);
    free_message(info);
    request.include_rights = true;
    CHECK_INT(unary(&client_get_info, &request, &info, NULL), ==, SONDE_OK);
    CHECK_INT(info->n_rights, ==, 6);
    CHECK(info->rights[0]->is_granted && !info->rights[2]->is_granted);
    CHECK_STR(info->rights[2]->lost, "a loss");
    CHECK_STR(info->rights[2]->command, "a command");
    CHECK_STR(info->rights[2]->reason, "a reason");
    free_message(info);
    setup_end(&setup);
}

static size_t two_exports(void *context, struct rpc_export_state states[RPC_MAX_EXPORTS]) {
    states[0] = (struct rpc_export_state){.destination = "otlp",
                                          .receiver = "http://collector:4318",
                                          .sent = 7,
                                          .lost = {{"queue_full", 2}},
                                          .lost_count = 1,
                                          .trouble = "HTTP status 503"};
    states[1] = (struct rpc_export_state){.destination = "pyroscope",
                                          .receiver = "http://flames:4040",
                                          .retries = 3,
                                          .queue_bytes = 9};
    return 2;
}

TEST(get_info_says_what_is_sent_where) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    Sonde__V1__Info *info = NULL;
    setup_begin(&setup);
    setup_stop(&setup, 0);
    setup.export_info = two_exports;
    setup_serve(&setup);
    CHECK_INT(unary(&client_get_info, &request, &info, NULL), ==, SONDE_OK);
    CHECK_INT(info->n_exports, ==, 2);
    CHECK_STR(info->exports[0]->destination, "otlp");
    CHECK_STR(info->exports[0]->receiver, "http://collector:4318");
    CHECK_STR(info->exports[0]->trouble, "HTTP status 503");
    CHECK_INT(info->exports[0]->sent, ==, 7);
    CHECK_INT(info->exports[0]->n_lost, ==, 1);
    CHECK_STR(info->exports[0]->lost[0]->cause, "queue_full");
    CHECK_STR(info->exports[1]->receiver, "http://flames:4040");
    CHECK_INT(info->exports[1]->retries, ==, 3);
    CHECK_INT(info->exports[1]->queue_bytes, ==, 9);
    free_message(info);
    setup_end(&setup);
}
