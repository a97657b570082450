/* SPDX-License-Identifier: Apache-2.0
 *
 * A request of OTLP profiles while it is being built: its memory, and the tables of its dictionary.
 * A function that runs out of memory sets `failed`, after which the others do nothing. Internal to
 * otlp*.c. Thread safety: one thread at a time per request. */
#ifndef SONDE_SERVICE_EXPORT_OTLP_STATE_H
#define SONDE_SERVICE_EXPORT_OTLP_STATE_H

#include "api/hash_index.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "service/export/protocol.h"

#define PROFILES(name) Opentelemetry__Proto__Profiles__V1development__##name
#define INIT(name)     OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__##name##__INIT
#define TEXT_VALUE     OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__ANY_VALUE__VALUE_STRING_VALUE
#define INT_VALUE      OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__ANY_VALUE__VALUE_INT_VALUE

#define COLLECTOR_INIT(name) \
    OPENTELEMETRY__PROTO__COLLECTOR__PROFILES__V1DEVELOPMENT__##name##__INIT
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef PROFILES(ProfilesDictionary) Dictionary;
typedef PROFILES(Mapping) Mapping;
typedef PROFILES(Function) Function;
typedef PROFILES(Location) Location;
typedef PROFILES(Line) Line;
typedef PROFILES(Link) Link;
typedef PROFILES(Stack) Stack;
typedef PROFILES(Sample) Sample;
typedef PROFILES(Profile) Profile;
typedef PROFILES(ValueType) ValueType;
typedef PROFILES(KeyValueAndUnit) Attribute;
typedef PROFILES(KeyValue) KeyValue;
typedef PROFILES(AnyValue) AnyValue;

struct otlp {
    const struct record *record;
    const struct sonde_profile *profile;
    struct sonde_arena arena;
    Dictionary dictionary;
    struct hash_index stacks, attributes, links;
    size_t string_capacity, attribute_capacity;
    uint32_t *sample_stacks; /* the first sample with each stack */
    bool failed;
};

/* Zeroed memory that lives as long as the request; NULL when out of memory. */
void *otlp_get(struct otlp *otlp, size_t size);
/* An array of pointers to `count` zeroed items of that size. NULL when out of memory. */
void *otlp_get_table(struct otlp *otlp, size_t count, size_t size);

/* The profile's strings, with their ids as indices. The first function to call. */
void otlp_fill_strings(struct otlp *otlp);
/* Entry 0 of the tables of stacks, attributes and links. */
void otlp_begin_tables(struct otlp *otlp);
/* The index of a string of OTLP's own, which is static. */
int32_t otlp_add_string(struct otlp *otlp, const char *text);
/* text NULL: a number. Texts are static or the profile's. */
int32_t otlp_add_attribute(struct otlp *otlp, int32_t key, const char *text, int64_t number);
/* The ids of a span as hexadecimal digits; 0, "none", if they are malformed. */
int32_t otlp_add_link(struct otlp *otlp, const char *trace_id, const char *span_id);

/* What was profiled. */
void otlp_fill_resource(struct otlp *otlp, PROFILES(Resource) * resource, const char *host);

#endif
