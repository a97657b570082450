/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/host/decode.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct decoder decoder;
static struct sonde_diag diag;

static sonde_err hello(uint64_t source, uint32_t epoch) {
    static const struct dictionary_label extra[] = {{"dc", "fra"}, {"version", "discovered"}};
    Sonde__V1__CollectLabel version = SONDE__V1__COLLECT_LABEL__INIT;
    Sonde__V1__CollectLabel *labels[] = {&version};
    Sonde__V1__CollectHello message = SONDE__V1__COLLECT_HELLO__INIT;
    version.name = "version";
    version.value = "machine";
    message.source = source;
    message.epoch = epoch;
    message.host = "web1";
    message.labels = labels;
    message.n_labels = 1;
    memset(&diag, 0, sizeof diag);
    return decoder_hello(&decoder, &message, "10.0.0.1:20180", extra, 2, &diag);
}

static void begin(void) {
    decoder_finish(&decoder);
    decoder_init(&decoder, NULL);
    CHECK_INT(hello(7, 3), ==, SONDE_OK);
}

/* One process, two frames, one stack of both, and their texts. */
struct definitions {
    Sonde__V1__CollectText text[5], *texts[5];
    Sonde__V1__CollectProcess process, *processes[1];
    Sonde__V1__CollectLabel label, *labels[1];
    Sonde__V1__CollectLine line, *lines[1];
    Sonde__V1__CollectFrame frame[2], *frames[2];
    Sonde__V1__CollectStack stack, *stacks[1];
    uint32_t stack_frames[2];
};

static void define(struct definitions *d, Sonde__V1__CollectResponse *response) {
    static const char *const texts[] = {"on-cpu", "ab12", "main", "worker", "perf"};
    for (uint32_t i = 0; i < 5; i++) {
        sonde__v1__collect_text__init(&d->text[i]);
        d->text[i].number = i + 1;
        d->text[i].text = (char *)texts[i];
        d->texts[i] = &d->text[i];
    }
    sonde__v1__collect_process__init(&d->process);
    d->process.number = 1;
    d->process.service = "web";
    d->process.instance = "0123456789abcdef0123456789abcdef";
    d->process.pid = 42;
    sonde__v1__collect_label__init(&d->label);
    d->label.name = "pod";
    d->label.value = "web-1";
    d->labels[0] = &d->label;
    d->process.labels = d->labels;
    d->process.n_labels = 1;
    d->processes[0] = &d->process;
    sonde__v1__collect_line__init(&d->line);
    d->line.function = 3;
    d->line.line = 12;
    d->lines[0] = &d->line;
    for (uint32_t i = 0; i < 2; i++) {
        sonde__v1__collect_frame__init(&d->frame[i]);
        d->frame[i].number = i + 1;
        d->frame[i].id = 1000 + i;
        d->frame[i].build_id = 2;
        d->frame[i].address = 0x10 * i;
        d->frames[i] = &d->frame[i];
    }
    d->frame[0].lines = d->lines;
    d->frame[0].n_lines = 1;
    sonde__v1__collect_stack__init(&d->stack);
    d->stack.number = 1;
    d->stack.id = 5000;
    d->stack.process = 1;
    d->stack_frames[0] = 1;
    d->stack_frames[1] = 2;
    d->stack.frames = d->stack_frames;
    d->stack.n_frames = 2;
    d->stacks[0] = &d->stack;
    response->texts = d->texts;
    response->n_texts = 5;
    response->processes = d->processes;
    response->n_processes = 1;
    response->frames = d->frames;
    response->n_frames = 2;
    response->stacks = d->stacks;
    response->n_stacks = 1;
}

struct window {
    Sonde__V1__CollectWindow window, *windows[1];
    uint32_t threads[1], stack[1], thread[1];
    int64_t value[1];
};

static void set_window(struct window *w, Sonde__V1__CollectResponse *response, uint64_t seq) {
    sonde__v1__collect_window__init(&w->window);
    w->threads[0] = 4;
    w->stack[0] = 1;
    w->value[0] = 52000000;
    w->window.seq = seq;
    w->window.process = 1;
    w->window.event = 1;
    w->window.clock = 5;
    w->window.begin_unix_s = 1700000000;
    w->window.length_s = 10;
    w->window.weight = 4;
    w->window.cpu_from_ns = 900;
    w->window.cpu_until_ns = 1000;
    w->window.samples = 1;
    w->window.threads = w->threads;
    w->window.n_threads = 1;
    w->window.stack = w->stack;
    w->window.n_stack = 1;
    w->window.value = w->value;
    w->window.n_value = 1;
    w->windows[0] = &w->window;
    response->windows = w->windows;
    response->n_windows = 1;
}

static sonde_err read_response(const Sonde__V1__CollectResponse *response,
                               struct decoded_entry **entries) {
    memset(&diag, 0, sizeof diag);
    return decoder_read(&decoder, response, NULL, NULL, entries, &diag);
}

static Sonde__V1__WriteRequest *unpack(const struct decoded_entry *entry) {
    Sonde__V1__WriteRequest *request = sonde__v1__write_request__unpack(
        NULL, entry->bytes.len, (const uint8_t *)entry->bytes.data);
    CHECK(request);
    return request;
}

TEST(a_window_gets_its_host_process_labels_and_ids) {
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    begin();
    define(&definitions, &response);
    set_window(&window, &response, 9);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    CHECK(entries && !entries->next);
    CHECK_INT(entries->windows, ==, 1);
    CHECK_INT(entries->last_seq, ==, 9);
    Sonde__V1__WriteRequest *request = unpack(entries);
    CHECK_INT(request->n_frames, ==, 2);
    CHECK_STR(request->frames[0]->build_id, "ab12");
    CHECK_STR(request->frames[0]->lines[0]->function, "main");
    CHECK_STR(request->frames[0]->lines[0]->file, "");
    CHECK_STR(request->stacks[0]->service, "web");
    CHECK_INT(request->stacks[0]->id, ==, 5000);
    CHECK_INT(request->stacks[0]->frames[1], ==, 1001);
    const Sonde__V1__StoredWindow *stored = request->windows[0];
    CHECK_INT(stored->source, ==, 7);
    CHECK_INT(stored->epoch, ==, 3);
    CHECK_INT(stored->seq, ==, 9);
    CHECK_STR(stored->event, "on-cpu");
    CHECK_STR(stored->host, "web1");
    CHECK_STR(stored->threads[0], "worker");
    CHECK_INT(stored->stack[0], ==, 5000);
    CHECK_INT(stored->thread[0], ==, 0);
    CHECK_INT(stored->value[0], ==, 52000000);
    CHECK_NEAR(stored->weight, 4, 0);
    CHECK_INT(stored->cpu_from_ns, ==, 900);
    CHECK_INT(stored->cpu_until_ns, ==, 1000);
    sonde__v1__write_request__free_unpacked(request, NULL);
    decoded_entry_free(entries);
}

TEST(what_another_host_defined_is_left_out) {
    struct passed passed;
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    passed_init(&passed);
    define(&definitions, &response);
    set_window(&window, &response, 9);
    for (uint64_t source = 7; source < 9; source++) {
        decoder_finish(&decoder);
        decoder_init(&decoder, &passed);
        CHECK_INT(hello(source, 3), ==, SONDE_OK);
        CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
        Sonde__V1__WriteRequest *request = unpack(entries);
        CHECK_INT(request->n_frames, ==, source == 7 ? 2 : 0);
        CHECK_INT(request->n_stacks, ==, source == 7 ? 1 : 0);
        CHECK_INT(request->windows[0]->stack[0], ==, 5000);
        sonde__v1__write_request__free_unpacked(request, NULL);
        decoded_entry_free(entries);
    }
    decoder_finish(&decoder);
    passed_finish(&passed);
}

TEST(the_most_exact_label_of_a_name_counts) {
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    begin();
    define(&definitions, &response);
    set_window(&window, &response, 1);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    Sonde__V1__WriteRequest *request = unpack(entries);
    const Sonde__V1__StoredWindow *stored = request->windows[0];
    CHECK_INT(stored->n_labels, ==, 3);
    CHECK_STR(stored->labels[0]->name, "pod");
    CHECK_STR(stored->labels[1]->value, "machine");
    CHECK_STR(stored->labels[2]->name, "dc");
    sonde__v1__write_request__free_unpacked(request, NULL);
    decoded_entry_free(entries);
}

TEST(a_large_answer_becomes_several_entries_and_the_last_has_the_number) {
    static char long_name[700];
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    enum { FRAMES = 4000 };
    static Sonde__V1__CollectFrame frame[FRAMES];
    static Sonde__V1__CollectFrame *frames[FRAMES];
    memset(long_name, 'f', sizeof long_name - 1);
    begin();
    define(&definitions, &response);
    set_window(&window, &response, 5);
    definitions.text[2].text = long_name;
    for (uint32_t i = 0; i < FRAMES; i++) {
        frame[i] = definitions.frame[0];
        frame[i].number = i + 1;
        frame[i].id = 1000 + i;
        frames[i] = &frame[i];
    }
    response.frames = frames;
    response.n_frames = FRAMES;
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    size_t count = 0, seen = 0;
    for (const struct decoded_entry *at = entries; at; at = at->next) {
        Sonde__V1__WriteRequest *request = unpack(at);
        CHECK_INT(at->bytes.len, <=, DECODE_ENTRY_BYTES + 4096);
        CHECK_INT(at->last_seq, ==, at->next ? 0 : 5);
        seen += request->n_frames;
        count++;
        sonde__v1__write_request__free_unpacked(request, NULL);
    }
    CHECK_INT(count, >, 1);
    CHECK_INT(seen, ==, FRAMES);
    decoded_entry_free(entries);
}

TEST(a_total_with_a_smaller_number_does_not_lower_the_acknowledgement) {
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectTotal total = SONDE__V1__COLLECT_TOTAL__INIT;
    Sonde__V1__CollectTotal *totals[] = {&total};
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    begin();
    define(&definitions, &response);
    set_window(&window, &response, 9);
    total.seq = 8;
    total.process = 3;
    total.length_s = 10;
    response.totals = totals;
    response.n_totals = 1;
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    CHECK_INT(entries->last_seq, ==, 9);
    Sonde__V1__WriteRequest *request = unpack(entries);
    CHECK_STR(request->totals[0]->process, "main");
    CHECK_STR(request->totals[0]->thread, "");
    CHECK_STR(request->totals[0]->host, "web1");
    sonde__v1__write_request__free_unpacked(request, NULL);
    decoded_entry_free(entries);
}

static void check_refused(const Sonde__V1__CollectResponse *response, const char *part) {
    struct decoded_entry *entries;
    CHECK_INT(read_response(response, &entries), ==, SONDE_PROTOCOL);
    if (!strstr(diag.text, part))
        check_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", diag.text, part);
    decoded_entry_free(entries);
}

TEST(numbers_that_were_not_defined_are_refused) {
    struct definitions definitions;
    struct window window;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    set_window(&window, &response, 1);
    begin();
    check_refused(&response, "process 1");
    define(&definitions, &response);
    window.stack[0] = 2;
    check_refused(&response, "stack 2");
    window.stack[0] = 1;
    window.threads[0] = 77;
    check_refused(&response, "77");
    window.threads[0] = 4;
    window.window.event = 66;
    check_refused(&response, "66");
    window.window.event = 1;
    definitions.stack_frames[1] = 9;
    check_refused(&response, "frame 9");
    definitions.stack_frames[1] = 2;
    definitions.frame[1].module = 55;
    check_refused(&response, "frame 2");
    definitions.frame[1].module = 0;
    definitions.text[0].number = DICTIONARY_MAX_NUMBER;
    check_refused(&response, "at most");
}

TEST(columns_of_different_lengths_are_refused) {
    struct definitions definitions;
    struct window window;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    begin();
    define(&definitions, &response);
    set_window(&window, &response, 1);
    window.window.n_value = 0;
    check_refused(&response, "columns");
}

TEST(a_number_can_be_defined_anew) {
    struct definitions definitions;
    struct window window;
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    begin();
    define(&definitions, &response);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    decoded_entry_free(entries);
    definitions.text[3].text = "another";
    definitions.stack.id = 6000;
    set_window(&window, &response, 1);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    Sonde__V1__WriteRequest *request = unpack(entries);
    CHECK_STR(request->windows[0]->threads[0], "another");
    CHECK_INT(request->windows[0]->stack[0], ==, 6000);
    sonde__v1__write_request__free_unpacked(request, NULL);
    decoded_entry_free(entries);
}

TEST(a_dictionary_is_bounded) {
    static char text[1 << 20];
    struct decoded_entry *entries;
    Sonde__V1__CollectText item = SONDE__V1__COLLECT_TEXT__INIT;
    Sonde__V1__CollectText *texts[] = {&item};
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    sonde_err err = SONDE_OK;
    memset(text, 'x', sizeof text - 1);
    begin();
    item.text = text;
    response.texts = texts;
    response.n_texts = 1;
    for (item.number = 1; item.number < 100 && !err; item.number++) {
        err = read_response(&response, &entries);
        decoded_entry_free(entries);
    }
    CHECK_INT(err, ==, SONDE_PROTOCOL);
    CHECK_INT(item.number, >, 40);
}

TEST(a_hello_is_needed_and_needs_a_source) {
    struct decoded_entry *entries;
    Sonde__V1__CollectResponse response = SONDE__V1__COLLECT_RESPONSE__INIT;
    decoder_finish(&decoder);
    decoder_init(&decoder, NULL);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_PROTOCOL);
    CHECK_INT(hello(0, 1), ==, SONDE_PROTOCOL);
    CHECK_INT(hello(1, 1), ==, SONDE_OK);
    CHECK_INT(read_response(&response, &entries), ==, SONDE_OK);
    CHECK(!entries);
    decoder_finish(&decoder);
}
