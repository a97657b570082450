/* SPDX-License-Identifier: Apache-2.0
 *
 * Records and their encoding as OTLP and Pyroscope requests, read back with protobuf-c. */
#include "api/profile/pprof/pprof.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "proto/push/v1/push.pb-c.h"
#include "service/export/protocol.h"
#include "tests/export/records.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ll

#define COLLECTOR(name) opentelemetry__proto__collector__profiles__v1development__##name
typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;

static Request *encode(const struct record *record) {
    struct sonde_buf bytes = {0};
    CHECK_INT(otlp_protocol.encode(record, "box", &bytes), ==, SONDE_OK);
    Request *request = COLLECTOR(export_profiles_service_request__unpack)(
        NULL, bytes.len, (const uint8_t *)bytes.data);
    sonde_buf_finish(&bytes);
    CHECK(request != NULL);
    return request;
}

static void drop(Request *request) {
    COLLECTOR(export_profiles_service_request__free_unpacked)(request, NULL);
}

static const Profile *only_profile(const Request *request) {
    CHECK_INT(request->n_resource_profiles, ==, 1);
    CHECK_INT(request->resource_profiles[0]->n_scope_profiles, ==, 1);
    CHECK_INT(request->resource_profiles[0]->scope_profiles[0]->n_profiles, ==, 1);
    return request->resource_profiles[0]->scope_profiles[0]->profiles[0];
}

static int64_t sum(const Profile *profile) {
    int64_t total = 0;
    for (size_t i = 0; i < profile->n_samples; i++)
        total += profile->samples[i]->values[0];
    return total;
}

TEST(a_cpu_record_is_one_profile_of_nanoseconds) {
    struct record record = make_cpu_record(2, 3, 1);
    Request *request = encode(&record);
    const Profile *profile = only_profile(request);
    CHECK_INT(profile->n_samples, ==, 4);
    CHECK_INT(sum(profile), ==, 7 * MS);
    CHECK_INT(profile->time_unix_nano, ==, 1700000020000000000);
    CHECK_INT(profile->duration_nano, ==, 10000 * MS);
    CHECK_INT(profile->period, ==, 52631579);
    CHECK_INT(profile->profile_id.len, ==, 16);
    CHECK_STR(request->dictionary->string_table[profile->sample_type->type_strindex], "cpu");
    CHECK_INT(request->dictionary->n_stack_table, ==, 4); /* two threads share one */
    drop(request);
    sonde_profile_destroy(record.profile);
}

TEST(entry_0_of_each_table_is_empty) {
    struct record record = make_cpu_record(0, 1, 1);
    Request *request = encode(&record);
    CHECK_STR(request->dictionary->string_table[0], "");
    CHECK_INT(request->dictionary->mapping_table[0]->memory_limit, ==, 0);
    CHECK_INT(request->dictionary->location_table[0]->n_lines, ==, 0);
    CHECK_INT(request->dictionary->function_table[0]->name_strindex, ==, 0);
    CHECK_INT(request->dictionary->link_table[0]->trace_id.len, ==, 0);
    CHECK(request->dictionary->attribute_table[0]->value == NULL);
    CHECK_INT(request->dictionary->stack_table[0]->n_location_indices, ==, 0);
    drop(request);
    sonde_profile_destroy(record.profile);
}

TEST(a_span_of_a_sample_is_its_link) {
    static const uint8_t span[] = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
    static const int32_t links[] = {1, 1, 2, 0};
    struct record record = make_span_record();
    Request *request = encode(&record);
    const Profile *profile = only_profile(request);
    CHECK_INT(request->dictionary->n_link_table, ==, 3);
    CHECK_INT(request->dictionary->link_table[1]->trace_id.len, ==, 16);
    CHECK_INT(request->dictionary->link_table[1]->trace_id.data[0], ==, 0x0a);
    CHECK_INT(request->dictionary->link_table[1]->span_id.len, ==, 8);
    CHECK(memcmp(request->dictionary->link_table[1]->span_id.data, span, sizeof span) == 0);
    CHECK_INT(profile->n_samples, ==, 4);
    for (size_t i = 0; i < profile->n_samples; i++) {
        CHECK_INT(profile->samples[i]->link_index, ==, links[i]);
        CHECK_INT(profile->samples[i]->n_attribute_indices, ==, 0);
    }
    drop(request);
    sonde_profile_destroy(record.profile);
}

TEST(a_heaps_values_are_bytes_and_not_objects) {
    _Atomic uint32_t room = 100;
    struct heap_delta delta = {.room = &room};
    struct record records[2];
    CHECK_INT(make_heap_records(&delta, 0, 1, records), ==, 1);
    sonde_profile_destroy(records[0].profile);
    CHECK_INT(make_heap_records(&delta, 1, 1, records), ==, 2);
    static const int64_t bytes[] = {1070, 1000}, ms[] = {0, 60000};
    for (size_t i = 0; i < 2; i++) {
        Request *request = encode(&records[i]);
        CHECK_INT(sum(only_profile(request)), ==, bytes[i]);
        CHECK_INT(only_profile(request)->duration_nano, ==, ms[i] * MS);
        drop(request);
        sonde_profile_destroy(records[i].profile);
    }
    heap_delta_finish(&delta);
}

TEST(a_push_has_sorted_labels_and_a_new_uuid_each_time) {
    struct record record = make_cpu_record(0, 1, 1);
    char last[40] = "";
    for (int i = 0; i < 2; i++) {
        struct sonde_buf bytes = {0};
        CHECK_INT(pyroscope_protocol.encode(&record, "box", &bytes), ==, SONDE_OK);
        Push__V1__PushRequest *request =
            push__v1__push_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
        CHECK(request != NULL);
        const Push__V1__RawProfileSeries *series = request->series[0];
        for (size_t k = 1; k < series->n_labels; k++)
            CHECK(strcmp(series->labels[k - 1]->name, series->labels[k]->name) < 0);
        CHECK_INT(strlen(series->samples[0]->id), ==, 36);
        CHECK(strcmp(series->samples[0]->id, last) != 0);
        strcpy(last, series->samples[0]->id);
        push__v1__push_request__free_unpacked(request, NULL);
        sonde_buf_finish(&bytes);
    }
    sonde_profile_destroy(record.profile);
}

TEST(pyroscope_gets_spans_but_no_traces_and_threads) {
    struct record record = make_span_record();
    struct sonde_buf bytes = {0};
    struct sonde_profile *pushed;
    CHECK_INT(pyroscope_protocol.encode(&record, "box", &bytes), ==, SONDE_OK);
    Push__V1__PushRequest *request =
        push__v1__push_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    CHECK(request != NULL);
    const ProtobufCBinaryData *raw = &request->series[0]->samples[0]->raw_profile;
    CHECK_INT(sonde_pprof_read((struct sonde_slice){(const char *)raw->data, raw->len}, 1 << 20,
                               &pushed, NULL),
              ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(pushed), ==, 4);
    CHECK_INT(sonde_profile_total(pushed, 1), ==, 4 * MS);
    struct sonde_sample first = sonde_profile_sample(pushed, 0);
    CHECK_INT(first.label_count, ==, 1);
    CHECK_STR(sonde_sample_label(pushed, &first, "span_id"), "b7ad6b7169203331");
    sonde_profile_destroy(pushed);
    push__v1__push_request__free_unpacked(request, NULL);
    sonde_buf_finish(&bytes);
    sonde_profile_destroy(record.profile);
}
