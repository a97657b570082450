/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and their sources, without an engine: nothing is recorded, and only the test ticks. */
#include "service/collect/collect.h"
#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <stdlib.h>
#include <string.h>

static void wake(void *context) {
    (void)context;
}

static struct collect *create(void) {
    static char dir[128];
    struct collect *collect;
    const struct collect_options options = {.dir = mkdtemp(temporary_template(dir, sizeof dir)),
                                            .is_manual = true};
    CHECK_INT(collect_create(&options, &collect, NULL), ==, SONDE_OK);
    return collect;
}

/* NULL: refused. */
static struct collect_link *open_session(struct collect *collect, const char *name,
                                         Sonde__V1__CollectAck *ack) {
    Sonde__V1__CollectRequest request = SONDE__V1__COLLECT_REQUEST__INIT;
    Sonde__V1__CollectStart start = SONDE__V1__COLLECT_START__INIT;
    struct collect_link *link = NULL;
    struct sonde_diag diag = {0};
    request.start = &start;
    start.session = (char *)name;
    start.ack = ack;
    sonde_err err = collect_open(collect, &request, wake, NULL, &link, &diag);
    CHECK(!err || err == SONDE_TOO_MANY_CAPTURES);
    return link;
}

/* What the first answer says of the session's windows. */
static Sonde__V1__CollectAck identity(struct collect_link *link) {
    Sonde__V1__CollectAck ack = SONDE__V1__COLLECT_ACK__INIT;
    struct sonde_buf answer = {0};
    bool is_empty;
    CHECK_INT(collect_next(link, 0, &answer, &is_empty, NULL), ==, SONDE_OK);
    Sonde__V1__CollectResponse *response =
        sonde__v1__collect_response__unpack(NULL, answer.len, (const uint8_t *)answer.data);
    CHECK(response && response->hello);
    ack.source = response->hello->source;
    ack.epoch = response->hello->epoch;
    sonde__v1__collect_response__free_unpacked(response, NULL);
    sonde_buf_finish(&answer);
    return ack;
}

/* Calls the session and ends the call. */
static Sonde__V1__CollectAck visit(struct collect *collect, const char *name,
                                   Sonde__V1__CollectAck *ack) {
    struct collect_link *link = open_session(collect, name, ack);
    Sonde__V1__CollectAck found = identity(link);
    collect_close(link);
    return found;
}

TEST(a_session_keeps_its_source_and_two_sessions_differ) {
    struct collect *collect = create();
    Sonde__V1__CollectAck first = visit(collect, "a", NULL);
    CHECK(first.source != 0);
    CHECK(visit(collect, "a", NULL).source == first.source);
    CHECK(visit(collect, "b", NULL).source != first.source);
    collect_destroy(collect);
}

TEST(a_session_that_begins_again_has_another_source) {
    struct collect *collect = create();
    Sonde__V1__CollectAck first = visit(collect, "a", NULL);
    collect_tick(collect, INT64_MAX);
    CHECK(visit(collect, "a", NULL).source != first.source);
    collect_destroy(collect);
}

TEST(a_controller_that_has_more_than_was_sent_gets_another_source) {
    struct collect *collect = create();
    Sonde__V1__CollectAck ack = visit(collect, "a", NULL), other = ack;
    other.source ^= 1;
    other.seq = ack.seq = 7;
    CHECK(visit(collect, "a", &other).source == ack.source);
    CHECK(visit(collect, "a", &ack).source != ack.source);
    collect_destroy(collect);
}

TEST(a_fifth_session_takes_the_place_of_the_one_that_has_waited_longest) {
    static const char *const names[] = {"a", "b", "c", "d"};
    struct collect *collect = create();
    struct collect_link *links[4];
    Sonde__V1__CollectAck acks[4];
    for (int i = 0; i < 4; i++) {
        links[i] = open_session(collect, names[i], NULL);
        acks[i] = identity(links[i]);
    }
    CHECK(open_session(collect, "e", NULL) == NULL);
    collect_close(links[2]);
    collect_close(links[1]);
    links[2] = open_session(collect, "e", NULL);
    CHECK(links[2] != NULL);
    CHECK(visit(collect, "b", NULL).source == acks[1].source);
    CHECK(visit(collect, "c", NULL).source != acks[2].source);
    collect_tick(collect, 0);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            collect_close(links[i]);
    collect_destroy(collect);
}
