/* SPDX-License-Identifier: Apache-2.0
 *
 * annotate: the lines of a function with their samples, and on request its instructions. The
 * service returns the profile and the code; the samples are counted here. */
#include "api/draw/names/readable_name.h"
#include "api/profile/pprof/pprof.h"
#include "clients/annotate/code_request.h"
#include "clients/annotate/view.h"
#include "gateway/mcp/completeness.h"
#include "gateway/mcp/source.h"
#include "gateway/reply/profile_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SECONDS 5
#define DEFAULT_HZ      499 /* a line needs more samples than a function */
#define DEFAULT_ROWS    20
#define FILE_BYTES      (2u << 20) /* of the profile, which is counted in the loop */
#define MEMORY_BYTES    (64u << 20)

struct annotation {
    struct mcp_call call;
    struct sonde_buf file;
    struct sonde_profile *profile;
    struct subject_name name;
    struct subject subject;
    uint64_t rows;
    bool wants_instructions, is_shown;
};

static void finish(struct mcp_call *call) {
    struct annotation *annotation = (struct annotation *)call;
    subject_finish(&annotation->subject);
    sonde_profile_destroy(annotation->profile);
    sonde_buf_finish(&annotation->file);
}

/* ---- Rows ---- */

static void put_counts(struct mcp_text *text, const struct view_counts *counts) {
    char cells[40];
    snprintf(cells, sizeof cells, "%7.2f%% %7.2f%%  ", 100 * counts->self, 100 * counts->total);
    mcp_text_puts(text, cells);
}

static void put_function(struct mcp_text *text, const char *name) {
    struct sonde_buf readable = {0};
    draw_readable_name(&readable, name, false);
    mcp_text_put_name(text, readable.data ? readable.data : name, MCP_NAME_BYTES);
    sonde_buf_finish(&readable);
}

/* "/src/shop.c:12"; of a long path the base name. */
static void put_line(struct mcp_text *text, const struct view_place *place) {
    const char *slash = strlen(place->file) > MCP_NAME_BYTES ? strrchr(place->file, '/') : NULL;
    char line[16];
    snprintf(line, sizeof line, ":%u", place->line);
    mcp_text_put_name(text, slash ? slash + 1 : place->file, MCP_NAME_BYTES);
    mcp_text_puts(text, place->line ? line : "");
}

static void put_place(struct mcp_text *text, const struct view *view, uint32_t number) {
    const struct view_place *place = &view->places[number];
    put_line(text, place);
    if (place->parent == VIEW_NONE)
        return;
    mcp_text_puts(text, "  in ");
    put_function(text, place->function);
    mcp_text_puts(text, ", inlined at ");
    put_line(text, &view->places[place->parent]);
}

struct row {
    const struct view_counts *counts;
    uint32_t number; /* of the place or instruction */
};

static int by_counts(const void *left, const void *right) {
    const struct view_counts *a = ((const struct row *)left)->counts;
    const struct view_counts *b = ((const struct row *)right)->counts;
    if (a->self != b->self)
        return a->self < b->self ? 1 : -1;
    return (a->total < b->total) - (a->total > b->total);
}

static int by_number(const void *left, const void *right) {
    uint32_t a = ((const struct row *)left)->number, b = ((const struct row *)right)->number;
    return (a > b) - (a < b);
}

/* Adds a row if it has samples. */
static void add_row(struct row *rows, size_t *count, const struct view_counts *counts,
                    uint32_t number) {
    if (counts->total > 0)
        rows[(*count)++] = (struct row){counts, number};
}

/* Sorts the rows and returns how many are shown. */
static size_t choose_rows(struct mcp_text *text, struct row *rows, size_t count, uint64_t most) {
    char line[60];
    qsort(rows, count, sizeof *rows, by_counts);
    if (count <= most)
        return count;
    snprintf(line, sizeof line, "Showing %" PRIu64 " of %zu\n", most, count);
    mcp_text_puts(text, line);
    return (size_t)most;
}

/* ---- Parts ---- */

static void put_summary(struct annotation *annotation, const struct view *view) {
    struct mcp_text *text = &annotation->call.text;
    const struct subject *subject = &annotation->subject;
    struct sonde_value_type type = sonde_profile_type(subject->profile, subject->type);
    char numbers[80];
    put_function(text, subject->name);
    mcp_text_puts(text, " in ");
    mcp_text_put_name(text, *subject->path ? subject->path : "?", MCP_LINE_BYTES / 2);
    snprintf(numbers, sizeof numbers, ": %.2f%% self, %.2f%% total of ",
             100 * view->counts[VIEW_NOW].self, 100 * view->counts[VIEW_NOW].total);
    mcp_text_puts(text, numbers);
    mcp_text_put_name(text, type.type, 40);
    mcp_text_puts(text, "\n");
    if (subject->is_container)
        mcp_text_puts(text,
                      "The named function is only inlined; this is the one with most of it\n");
}

static void put_lines(struct annotation *annotation, const struct view *view, struct row *rows) {
    struct mcp_text *text = &annotation->call.text;
    size_t count = 0;
    for (uint32_t i = 0; i < view->place_count; i++)
        if (view->places[i].line > 0)
            add_row(rows, &count, view->places[i].counts, i);
    if (count == 0) {
        sonde_buf_puts(&annotation->call.text.head,
                       "The samples have no line numbers: the program has no debug information "
                       "(compile with -g), or sonded still reads it.\n");
        return;
    }
    size_t shown = choose_rows(text, rows, count, annotation->rows);
    mcp_text_puts(text, "    SELF    TOTAL  LINE\n");
    for (size_t i = 0; i < shown; i++) {
        put_counts(text, rows[i].counts);
        put_place(text, view, rows[i].number);
        mcp_text_puts(text, "\n");
    }
}

static void put_instruction(struct mcp_text *text, const struct view *view,
                            const struct view_instruction *item) {
    const Sonde__V1__CodeInstruction *code = item->code;
    const char *target = view_text(view->code, code->target_name);
    char address[24];
    put_counts(text, item->counts);
    snprintf(address, sizeof address, "%10" PRIx64 "  ", code->address);
    mcp_text_puts(text, address);
    mcp_text_put_name(text, code->text, MCP_NAME_BYTES);
    if (*target) {
        mcp_text_puts(text, "  <");
        put_function(text, target);
        mcp_text_puts(text, ">");
    }
    if (item->place != VIEW_NONE) {
        mcp_text_puts(text, "  ; ");
        put_line(text, &view->places[item->place]);
    }
    mcp_text_puts(text, "\n");
}

static void put_instructions(struct annotation *annotation, const struct view *view,
                             struct row *rows) {
    struct mcp_text *text = &annotation->call.text;
    size_t count = 0;
    for (uint32_t i = 0; i < view->instruction_count; i++)
        add_row(rows, &count, view->instructions[i].counts, i);
    if (count == 0)
        return;
    size_t shown = choose_rows(text, rows, count, annotation->rows);
    qsort(rows, shown, sizeof *rows, by_number);
    mcp_text_puts(text, "    SELF    TOTAL     ADDRESS  INSTRUCTION\n");
    for (size_t i = 0; i < shown; i++)
        put_instruction(text, view, &view->instructions[rows[i].number]);
}

/* code NULL: only lines, as the profile knows them. */
static sonde_err show(struct annotation *annotation, const Sonde__V1__Code *code) {
    struct view view;
    struct row *rows = NULL;
    sonde_err err = view_init(&view, code, annotation->subject.name);
    if (!err)
        err = view_count(&view, VIEW_NOW, &annotation->subject, 0, annotation->name.start);
    if (!err)
        rows = calloc((size_t)view.place_count + view.instruction_count + 1, sizeof *rows);
    if (rows) {
        put_summary(annotation, &view);
        put_lines(annotation, &view, rows);
        put_instructions(annotation, &view, rows);
        annotation->is_shown = true;
    } else if (!err) {
        err = SONDE_OUT_OF_MEMORY;
    }
    free(rows);
    view_finish(&view);
    return err;
}

/* ---- The code ---- */

static void put_reason(struct mcp_text *text, const char *before, const char *reason) {
    if (!*reason)
        return;
    mcp_text_puts(text, before);
    mcp_text_put_name(text, reason, MCP_LINE_BYTES - 60);
    mcp_text_puts(text, "\n");
}

/* Functions of one name in one file, without the parts that the compiler has split off. */
static void put_choice(struct annotation *annotation, const Sonde__V1__Code *code) {
    struct mcp_text *text = &annotation->call.text;
    sonde_buf_puts(&text->head, "Several functions have this name. For the instructions of one, "
                                "call again with FUNCTION@ADDRESS as in the data.\n");
    for (size_t i = 0; i < code->n_functions; i++) {
        const Sonde__V1__CodeFunction *function = code->functions[i];
        const struct view_place place = {.file = view_text(code, function->file),
                                         .line = function->line};
        char address[24];
        if (function->is_part)
            continue;
        mcp_text_put_name(text, annotation->subject.name, MCP_NAME_BYTES);
        snprintf(address, sizeof address, "@0x%" PRIx64 "  ", function->start);
        mcp_text_puts(text, address);
        put_line(text, &place);
        mcp_text_puts(text, "\n");
    }
}

static void on_code(struct mcp_call *call, const ProtobufCMessage *message) {
    struct annotation *annotation = (struct annotation *)call;
    const Sonde__V1__Code *code = (const void *)message;
    size_t whole = 0;
    for (size_t i = 0; i < code->n_functions; i++)
        whole += !code->functions[i]->is_part;
    if (show(annotation, code))
        return;
    if (whole > 1 && !annotation->name.start)
        put_choice(annotation, code);
    put_reason(&call->text, "no instructions: ", code->without_code);
    put_reason(&call->text, "no inlined calls and lines in the file: ", code->without_lines);
}

/* Without the code, the lines that the profile has are shown. */
static void end_code(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    struct annotation *annotation = (struct annotation *)call;
    sonde_err shown = annotation->is_shown ? SONDE_OK : show(annotation, NULL);
    if (err)
        put_reason(&call->text, "no instructions: ", sonde_diag_text(diag, err));
    mcp_end(call, shown, NULL);
}

static sonde_err ask_code(struct annotation *annotation, struct sonde_diag *diag) {
    const struct subject *subjects[] = {&annotation->subject};
    struct code_request request;
    sonde_err err = code_request_init(&request, subjects, 1, annotation->name.start, diag);
    if (!err)
        mcp_ask(&annotation->call, &client_get_code, &request.message.base, MCP_LONG_MS, on_code,
                end_code);
    code_request_finish(&request);
    return err;
}

/* ---- The profile ---- */

static void on_event(struct mcp_call *call, const ProtobufCMessage *message) {
    struct annotation *annotation = (struct annotation *)call;
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        mcp_put_result(&call->text, event->result);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        sonde_buf_append(&annotation->file, (const char *)event->chunk.data, event->chunk.len);
}

/* A name can mean functions of several files; they are listed instead of an answer. */
static sonde_err find_subject(struct annotation *annotation, struct sonde_diag *diag) {
    const struct sonde_profile *profile = annotation->profile;
    struct mcp_text *text = &annotation->call.text;
    struct sonde_buf choices = {0};
    size_t type = sonde_profile_info(profile)->default_type;
    char *word;
    sonde_err err = mcp_string(&annotation->call, "function", &word, diag);
    if (err)
        return err;
    subject_read_name(profile, word, &annotation->name);
    err = subject_find(profile, type < sonde_profile_type_count(profile) ? type : 0,
                       &annotation->name, &annotation->subject, &choices, diag);
    if (choices.len) {
        sonde_buf_puts(&text->head, "Several functions have this name: call again with one of "
                                    "those in the data as the function.\n");
        mcp_text_add(text, choices.data, choices.len);
        err = SONDE_OK;
    }
    sonde_buf_finish(&choices);
    return err;
}

static sonde_err read_profile(struct annotation *annotation, struct sonde_diag *diag) {
    const struct sonde_buf *file = &annotation->file;
    if (file->failed)
        return sonde_fail(diag, SONDE_TOO_LARGE,
                          "the profile is larger than %u MiB: take a capture of one process, or a "
                          "shorter range",
                          FILE_BYTES >> 20);
    return sonde_pprof_read(sonde_buf_slice(file), MEMORY_BYTES, &annotation->profile, diag);
}

static void end_profile(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    struct annotation *annotation = (struct annotation *)call;
    struct sonde_diag why = {0};
    if (err) {
        (mcp_is_history(call) ? mcp_end_history : mcp_end)(call, err, diag);
        return;
    }
    err = read_profile(annotation, &why);
    if (!err)
        err = find_subject(annotation, &why);
    bool is_found = !err && annotation->subject.count > 0;
    bool has_code = is_found && *annotation->subject.build_id;
    if (has_code && (annotation->wants_instructions || annotation->name.start)) {
        err = ask_code(annotation, &why);
        if (!err)
            return;
    } else if (is_found) {
        err = show(annotation, NULL);
    }
    if (is_found && !has_code && annotation->wants_instructions)
        mcp_text_puts(&call->text, "no instructions: the file has no build-id\n");
    mcp_end(call, err, &why);
}

static sonde_err ask_target(struct mcp_call *call, Sonde__V1__Rendering *rendering,
                            struct sonde_diag *diag) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    uint64_t seconds = DEFAULT_SECONDS, frequency = DEFAULT_HZ;
    sonde_err err = mcp_read_target(call, diag);
    if (!err)
        err = mcp_whole(call, "seconds", &seconds, diag);
    if (!err)
        err = mcp_whole(call, "frequency", &frequency, diag);
    if (err)
        return err;
    Sonde__V1__TargetSelector target = relay_selector(&call->target);
    request.target = &target;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.frequency_hz = (uint32_t)frequency;
    request.no_progress = true;
    mcp_ask_text(call, &client_capture_cpu, &request.base,
                 (uint32_t)seconds * 1000 + PROFILE_GRACE_MS);
    return SONDE_OK;
}

static sonde_err refuse_sampling(const struct mcp_call *call, struct sonde_diag *diag) {
    static const char *const names[] = {"seconds", "frequency"};
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !err; i++)
        if (mcp_is_said(call, names[i]))
            err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s: only with target", names[i]);
    return err;
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    struct annotation *annotation = (struct annotation *)call;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    annotation->file.limit = FILE_BYTES;
    annotation->rows = DEFAULT_ROWS;
    rendering.format = SONDE__V1__FORMAT__PPROF;
    rendering.raw = true;
    sonde_err err = mcp_check_source(call, diag);
    if (!err && !mcp_is_said(call, "target"))
        err = refuse_sampling(call, diag);
    if (!err)
        err = mcp_whole(call, "rows", &annotation->rows, diag);
    if (!err)
        err = query_flag(&call->arguments, "instructions", &annotation->wants_instructions, diag);
    if (!err)
        err = mcp_is_said(call, "target") ? ask_target(call, &rendering, diag)
                                          : mcp_ask_profile(call, &rendering, diag);
    if (err)
        return err;
    call->on_message = on_event;
    call->then = end_profile;
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {
    {"function", MCP_STRING, true, 1, MCP_MAX_FUNCTION,
     "name as in the answer of top, with FUNCTION@FILE or FUNCTION@0xADDRESS if several have it"},
    {"target", MCP_STRING, false, 1, 255,
     "a pid or the name of a process, to sample it now; or use capture or service"},
    {"seconds", MCP_WHOLE, false, 1, MCP_MAX_SECONDS, "duration, with target; default 5"},
    {"frequency", MCP_WHOLE, false, 1, 10000, "samples per second, with target; default 499"},
    MCP_CAPTURE,
    MCP_SELECTION,
    {"instructions", MCP_FLAG, false, 0, 0,
     "true: also the instructions with samples, by address; default false"},
    {"rows", MCP_WHOLE, false, 1, 100, "number of lines, and of instructions; default 20"},
};

const struct mcp_tool mcp_annotate = {
    .name = "annotate",
    .title = "Hottest lines of a function",
    .description =
        "The source lines of a function with the largest share of the samples, of a process that "
        "is sampled now, a saved capture or a range of history. SELF is time in the line itself, "
        "TOTAL also in what it calls; both are shares of the whole profile. Lines of inlined "
        "functions name the call. Read the file to see the code.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .size = sizeof(struct annotation),
    .start = start,
    .finish = finish,
};
