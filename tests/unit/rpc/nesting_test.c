/* SPDX-License-Identifier: Apache-2.0
 *
 * Which messages can be nested without end. Servers count the levels of all requests. Clients of
 * services, the registration and the gateway decode without counting, because none of their
 * messages contains itself; this test finds the first one that does. */
#include "tests/unit/check.h"

#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "proto/push/v1/push.pb-c.h"
#include "proto/querier/v1/querier.pb-c.h"
#include "proto/sonde/v1/controller.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"

#define DEEPEST 16 /* more levels than any message has that does not contain itself */

static const ProtobufCMessageDescriptor *deepest;

static unsigned levels(const ProtobufCMessageDescriptor *type, unsigned level) {
    unsigned most = level;
    for (unsigned i = 0; i < type->n_fields && most < DEEPEST; i++)
        if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) {
            unsigned found = levels(type->fields[i].descriptor, level + 1);
            most = found > most ? found : most;
        }
    if (most == DEEPEST)
        deepest = type;
    return most;
}

static void check_type(const ProtobufCMessageDescriptor *type) {
    if (levels(type, 1) >= DEEPEST)
        check_fail(__FILE__, __LINE__,
                   "%s contains itself, at %s: count levels where it is decoded", type->name,
                   deepest->name);
}

TEST(no_message_that_is_decoded_without_counting_contains_itself) {
    static const ProtobufCServiceDescriptor *const services[] = {
        &sonde__v1__profiler__descriptor, &sonde__v1__history__descriptor,
        &sonde__v1__controller__descriptor, &push__v1__pusher_service__descriptor,
        &grpc__health__v1__health__descriptor};
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
        for (unsigned k = 0; k < services[i]->n_methods; k++) {
            check_type(services[i]->methods[k].input);
            check_type(services[i]->methods[k].output);
        }
    static const ProtobufCMessageDescriptor *const others[] = {
        &sonde__v1__capture__descriptor, /* in files */
        &sonde__v1__collect_settings__descriptor,
        &querier__v1__profile_types_request__descriptor,
        &querier__v1__label_names_request__descriptor,
        &querier__v1__label_values_request__descriptor,
        &querier__v1__series_request__descriptor,
        &querier__v1__select_series_request__descriptor,
        &querier__v1__select_merge_stacktraces_request__descriptor,
        &querier__v1__diff_request__descriptor,
        &querier__v1__select_merge_profile_request__descriptor};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check_type(others[i]);
}

TEST(a_message_that_contains_itself_is_found) {
    const ProtobufCServiceDescriptor *otlp =
        &opentelemetry__proto__collector__profiles__v1development__profiles_service__descriptor;
    CHECK_INT(levels(otlp->methods[0].input, 1), ==, DEEPEST);
}
