/* SPDX-License-Identifier: Apache-2.0
 *
 * An OTLP Export request, with bounds. Other machines send it: an index outside of a table reads as
 * the table's empty entry, and texts are cut to the store's limits. Internal to service/rpc/otlp.
 * Thread safety: one thread at a time per request. */
#ifndef SONDE_SERVICE_RPC_OTLP_MESSAGE_H
#define SONDE_SERVICE_RPC_OTLP_MESSAGE_H

#include "api/bytes.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"

#include <stdbool.h>

/* protobuf-c's names are too long to read. */
#define OTLP_PROFILES(name)  Opentelemetry__Proto__Profiles__V1development__##name
#define OTLP_COLLECTOR(name) Opentelemetry__Proto__Collector__Profiles__V1development__##name
typedef OTLP_PROFILES(ProfilesDictionary) otlp_dictionary;
typedef OTLP_PROFILES(ResourceProfiles) otlp_resource_profiles;
typedef OTLP_PROFILES(Profile) otlp_profile;
typedef OTLP_PROFILES(Sample) otlp_sample;
typedef OTLP_PROFILES(ValueType) otlp_value_type;
typedef OTLP_PROFILES(Mapping) otlp_mapping;
typedef OTLP_PROFILES(Location) otlp_location;
typedef OTLP_PROFILES(Function) otlp_function;
typedef OTLP_PROFILES(Stack) otlp_stack;
typedef OTLP_PROFILES(KeyValue) otlp_key_value;
typedef OTLP_PROFILES(AnyValue) otlp_any_value;
typedef OTLP_COLLECTOR(ExportProfilesServiceRequest) otlp_request;
typedef OTLP_COLLECTOR(ExportProfilesServiceResponse) otlp_response;
typedef OTLP_COLLECTOR(ExportProfilesPartialSuccess) otlp_partial_success;
typedef OTLP_PROFILES(Resource) otlp_resource_message;

#define OTLP_RESPONSE_INIT \
    OPENTELEMETRY__PROTO__COLLECTOR__PROFILES__V1DEVELOPMENT__EXPORT_PROFILES_SERVICE_RESPONSE__INIT
#define OTLP_PARTIAL_INIT \
    OPENTELEMETRY__PROTO__COLLECTOR__PROFILES__V1DEVELOPMENT__EXPORT_PROFILES_PARTIAL_SUCCESS__INIT
#define OTLP_DICTIONARY_INIT \
    OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILES_DICTIONARY__INIT
#define OTLP_LOCATION_INIT OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LOCATION__INIT

/* "" if there is none. */
const char *otlp_string(const otlp_dictionary *dictionary, int32_t index);
/* NULL if there is none. */
const otlp_mapping *otlp_mapping_at(const otlp_dictionary *dictionary, int32_t index);
const otlp_location *otlp_location_at(const otlp_dictionary *dictionary, int32_t index);
const otlp_function *otlp_function_at(const otlp_dictionary *dictionary, int32_t index);
const otlp_stack *otlp_stack_at(const otlp_dictionary *dictionary, int32_t index);

/* A value of either table of attributes. */
struct otlp_attribute {
    const char *key, *text; /* text: of a string; "" for other types */
    int64_t number;         /* of an integer, or of a string of digits; -1 = neither */
};

/* Reads an attribute of a mapping, location or sample by its index. False if there is none. */
bool otlp_attribute_at(const otlp_dictionary *dictionary, int32_t index,
                       struct otlp_attribute *attribute);
/* Reads an attribute of a resource. */
void otlp_attribute_of(const otlp_dictionary *dictionary, const otlp_key_value *from,
                       struct otlp_attribute *attribute);
/* The text of the attribute with that key among `indices`; "" = none. */
const char *otlp_find_text(const otlp_dictionary *dictionary, const int32_t *indices, size_t count,
                           const char *key);

#endif
