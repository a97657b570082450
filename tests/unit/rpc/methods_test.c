/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the service's and the C client's tables of methods with the protos. */
#include "clients/c/client.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/info/services.h"
#include "service/rpc/method_table.h"
#include "tests/unit/check.h"

#include <stdio.h>

static const struct rpc_method *served(const char *path) {
    for (size_t i = 0; i < rpc_method_count; i++)
        if (strcmp(rpc_methods[i].path, path) == 0)
            return &rpc_methods[i];
    return NULL;
}

static const struct client_method *called(const char *path) {
    for (size_t i = 0; i < client_method_count; i++)
        if (strcmp(client_methods[i]->path, path) == 0)
            return client_methods[i];
    return NULL;
}

static void check_methods(const ProtobufCServiceDescriptor *service) {
    for (unsigned i = 0; i < service->n_methods; i++) {
        const ProtobufCMethodDescriptor *method = &service->methods[i];
        char path[128];
        snprintf(path, sizeof path, "/%s/%s", service->name, method->name);
        const struct rpc_method *ours = served(path);
        const struct client_method *theirs = called(path);
        if (!ours || !theirs)
            check_fail(__FILE__, __LINE__, "%s is missing in one of the tables", path);
        CHECK(ours->request == method->input);
        CHECK(theirs->request == method->input);
        CHECK(theirs->response == method->output);
        CHECK_INT(theirs->streaming, ==,
                  ours->kind == RPC_STREAM || ours->kind == RPC_BIDI || ours->kind == RPC_DUPLEX);
        CHECK_INT(theirs->sends, ==, rpc_has_many_requests(ours));
        CHECK_INT(ours->scope, !=, RPC_SCOPE_NONE);
    }
}

TEST(every_method_of_the_protos_is_in_both_tables) {
    check_methods(&sonde__v1__profiler__descriptor);
    check_methods(&sonde__v1__history__descriptor);
}

/* Hosts call RegisterHost. */
TEST(the_client_calls_the_controllers_other_methods) {
    const ProtobufCServiceDescriptor *service = &sonde__v1__controller__descriptor;
    for (unsigned i = 0; i < service->n_methods; i++) {
        const ProtobufCMethodDescriptor *method = &service->methods[i];
        char path[128];
        snprintf(path, sizeof path, "/%s/%s", service->name, method->name);
        const struct client_method *theirs = called(path);
        CHECK_INT(theirs == NULL, ==, strcmp(method->name, "RegisterHost") == 0);
        CHECK(!theirs || (theirs->request == method->input && theirs->response == method->output));
    }
    CHECK_INT(client_method_count, ==,
              sonde__v1__profiler__descriptor.n_methods + sonde__v1__history__descriptor.n_methods +
                  service->n_methods - 1);
}

TEST(history_is_refused_to_callers_who_may_see_their_own_processes_only) {
    size_t count = 0;
    for (size_t i = 0; i < rpc_method_count; i++) {
        if (strncmp(rpc_methods[i].path, "/sonde.v1.History/", 18) != 0)
            continue;
        CHECK_INT(rpc_methods[i].reach, ==, RPC_REACH_SHARED);
        count++;
    }
    CHECK_INT(count, ==, sonde__v1__history__descriptor.n_methods);
}

TEST(every_method_belongs_to_a_service_that_reflection_lists) {
    for (size_t i = 0; i < rpc_method_count; i++) {
        bool is_listed = false;
        for (size_t j = 0; rpc_service_name(j); j++) {
            size_t len = strlen(rpc_service_name(j));
            const char *path = rpc_methods[i].path + 1;
            is_listed =
                is_listed || (strncmp(path, rpc_service_name(j), len) == 0 && path[len] == '/');
        }
        CHECK(is_listed);
    }
}

/* Collect needs only the scope read: it changes what is recorded for its controller. RenewLease is
 * called every few seconds, and the controllers log who joins and leaves their group. */
TEST(methods_that_change_state_are_audited) {
    for (size_t i = 0; i < rpc_method_count; i++) {
        const struct rpc_method *method = &rpc_methods[i];
        bool changes = method->scope == RPC_SCOPE_CONTROL || strstr(method->path, "/Collect");
        changes = changes && !strstr(method->path, "/RenewLease");
        if (changes != (method->effect == RPC_EFFECT_STATE))
            check_fail(__FILE__, __LINE__, "%s has the wrong effect", method->path);
    }
}
