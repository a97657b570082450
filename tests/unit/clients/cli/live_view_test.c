/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/live/live_data.h"
#include "clients/cli/verbs/live/live_view.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static uint64_t target_cpu_ns = 500000000;

/* Adds a window with the stacks main;hot (number 0) and main;cold;hot (1) of thread "worker". The
 * first window carries the dictionary. */
static bool add(struct live_view *view, bool is_first, uint64_t hot_ns, uint64_t cold_ns) {
    static char *strings[] = {(char *)"main",   (char *)"hot", (char *)"cold",
                              (char *)"worker", (char *)"",    (char *)"lib.so"};
    Sonde__V1__StreamFrame frames[4], *frame_list[4];
    Sonde__V1__StreamStack stacks[3], *stack_list[3];
    Sonde__V1__StackCount counts[2], *count_list[2];
    Sonde__V1__CpuWindow window = SONDE__V1__CPU_WINDOW__INIT;
    uint32_t first[] = {1, 0}, second[] = {1, 2, 0}, third[] = {3, 0};
    for (uint32_t i = 0; i < 4; i++) {
        sonde__v1__stream_frame__init(&frames[i]);
        frames[i].function = i < 3 ? i : 4;
        frames[i].module = i < 3 ? 0 : 6;
        frames[i].address = 0x1234;
        frame_list[i] = &frames[i];
    }
    for (int i = 0; i < 3; i++) {
        sonde__v1__stream_stack__init(&stacks[i]);
        stacks[i].frames = i == 0 ? first : i == 1 ? second : third;
        stacks[i].n_frames = i == 1 ? 3 : 2;
        stacks[i].thread = i == 2 ? 0 : 4;
        stack_list[i] = &stacks[i];
    }
    for (uint32_t i = 0; i < 2; i++) {
        sonde__v1__stack_count__init(&counts[i]);
        counts[i].stack = i == 0 ? 0 : 2;
        counts[i].cpu_ns = i == 0 ? hot_ns : cold_ns;
        count_list[i] = &counts[i];
    }
    if (is_first) {
        window.strings = strings;
        window.n_strings = 6;
        window.frames = frame_list;
        window.n_frames = 4;
        window.stacks = stack_list;
        window.n_stacks = 3;
    }
    window.counts = count_list;
    window.n_counts = 2;
    window.end_unix_ns = 1000000000;
    window.target_cpu_ns = target_cpu_ns;
    window.clock = (char *)"timer";
    return live_view_add(view, &window);
}

/* Adds hot() of a thread "worker" with the tid 1, and cold() of one with the tid `second`. */
static bool add_pool(struct live_view *view, uint32_t second) {
    static char *strings[] = {(char *)"hot", (char *)"cold", (char *)"worker"};
    Sonde__V1__StreamFrame frames[2], *frame_list[2];
    Sonde__V1__StreamStack stacks[2], *stack_list[2];
    Sonde__V1__StackCount counts[2], *count_list[2];
    Sonde__V1__CpuWindow window = SONDE__V1__CPU_WINDOW__INIT;
    uint32_t leaves[] = {0, 1};
    for (uint32_t i = 0; i < 2; i++) {
        sonde__v1__stream_frame__init(frame_list[i] = &frames[i]);
        frames[i].function = i;
        sonde__v1__stream_stack__init(stack_list[i] = &stacks[i]);
        stacks[i].frames = &leaves[i];
        stacks[i].n_frames = 1;
        stacks[i].thread = 3;
        stacks[i].tid = i == 0 ? 1 : second;
        sonde__v1__stack_count__init(count_list[i] = &counts[i]);
        counts[i].stack = i;
        counts[i].cpu_ns = 100;
    }
    window.strings = strings;
    window.n_strings = 3;
    window.frames = frame_list;
    window.stacks = stack_list;
    window.counts = count_list;
    window.n_frames = window.n_stacks = window.n_counts = 2;
    window.clock = (char *)"timer";
    return live_view_add(view, &window);
}

static struct sonde_buf draw(struct live_view *view, struct live_options options) {
    struct sonde_buf out = {0};
    options.title = "shop";
    options.filter = options.filter ? options.filter : "";
    options.rows = options.rows ? options.rows : 20;
    options.columns = options.columns ? options.columns : 100;
    live_view_draw(view, &options, &out);
    return out;
}

TEST(the_hottest_function_comes_first) {
    struct live_view *view = live_view_create(10);
    CHECK(add(view, true, 300, 100));
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "shop  cpu 50.0 %  last 1.0 s  dropped 0  clock timer\n") == out.data);
    CHECK(strstr(out.data, " 75.0 %  75.0 %  ###############       hot\n") != NULL);
    CHECK(strstr(out.data, " 25.0 %  25.0 %  #####                 lib.so 0x1234\n") != NULL);
    CHECK(strstr(out.data, "  0.0 % 100.0 %  --------------------  main\n") != NULL);
    CHECK(strstr(out.data, "hot\n") < strstr(out.data, "lib.so"));
    CHECK(strstr(out.data, "cold") == NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(windows_older_than_the_span_are_subtracted) {
    struct live_view *view = live_view_create(2);
    CHECK(add(view, true, 1000, 0));
    CHECK(add(view, false, 0, 30));
    CHECK(add(view, false, 30, 0));
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, " 50.0 %  50.0 %  ##########            hot\n") != NULL);
    CHECK(strstr(out.data, "last 2.0 s") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(a_frozen_view_shows_what_it_had_until_it_goes_on) {
    struct live_view *view = live_view_create(2);
    CHECK(add(view, true, 300, 100));
    live_view_freeze(view, true);
    struct sonde_buf frozen = draw(view, (struct live_options){0});
    for (int i = 0; i < 3; i++) { /* the first window leaves the span meanwhile */
        CHECK(add(view, false, 50, 50));
        struct sonde_buf now = draw(view, (struct live_options){0});
        CHECK_STR(now.data, frozen.data);
        sonde_buf_finish(&now);
    }
    live_view_freeze(view, false);
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "last 2.0 s") != NULL);
    CHECK(strstr(out.data, " 50.0 %  50.0 %  ##########            hot\n") != NULL);
    sonde_buf_finish(&frozen);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(rows_can_be_threads_sorted_by_total_and_filtered) {
    struct live_view *view = live_view_create(10);
    CHECK(add(view, true, 300, 100));
    struct sonde_buf out = draw(view, (struct live_options){.by = LIVE_THREADS});
    CHECK(strstr(out.data, " 75.0 %  75.0 %  ###############       worker\n") != NULL);
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){.by_total = true});
    CHECK(strstr(out.data, "main\n") < strstr(out.data, "hot\n"));
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){.filter = "LIB"});
    CHECK(strstr(out.data, "lib.so") && !strstr(out.data, "hot"));
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){.filter = "nobody", .is_paused = true});
    CHECK(strstr(out.data, "PAUSED") && strstr(out.data, "no matches"));
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(rows_can_be_processes_and_a_target_without_a_clock_has_the_time_of_its_samples) {
    struct live_view *view = live_view_create(10);
    target_cpu_ns = 0;
    CHECK(add(view, true, 300000000, 100000000));
    struct sonde_buf out =
        draw(view, (struct live_options){.by = LIVE_PROCESSES, .is_cpu_time = true});
    CHECK(strstr(out.data, "cpu 40.0 %  last 1.0 s") != NULL);
    CHECK(strstr(out.data, "process\n") != NULL);
    CHECK(strstr(out.data, "100.0 % 100.0 %  ####################  main\n") != NULL);
    CHECK(!strstr(out.data, "hot") && !strstr(out.data, "lib.so"));
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "cpu 0.0 %") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
    target_cpu_ns = 500000000;
}

/* ---- Callers and callees ---- */

enum { MAIN, SERVE, PARSE, WORK, NAMES };

/* main;serve;parse 30, main;serve;parse;work 50, main;work 20, main;serve;serve;work 40. */
static struct live_view *serving(void) {
    static char *strings[] = {(char *)"main", (char *)"serve", (char *)"parse", (char *)"work"};
    static uint32_t leaf_first[][4] = {
        {PARSE, SERVE, MAIN}, {WORK, PARSE, SERVE, MAIN}, {WORK, MAIN}, {WORK, SERVE, SERVE, MAIN}};
    static const size_t depths[] = {3, 4, 2, 4};
    static const uint64_t times[] = {30, 50, 20, 40};
    Sonde__V1__StreamFrame frames[NAMES], *frame_list[NAMES];
    Sonde__V1__StreamStack stacks[4], *stack_list[4];
    Sonde__V1__StackCount counts[4], *count_list[4];
    Sonde__V1__CpuWindow window = SONDE__V1__CPU_WINDOW__INIT;
    for (uint32_t i = 0; i < 4; i++) {
        sonde__v1__stream_frame__init(&frames[i]);
        sonde__v1__stream_stack__init(&stacks[i]);
        sonde__v1__stack_count__init(&counts[i]);
        frames[i].function = counts[i].stack = i;
        stacks[i].frames = leaf_first[i];
        stacks[i].n_frames = depths[i];
        counts[i].cpu_ns = times[i];
        frame_list[i] = &frames[i];
        stack_list[i] = &stacks[i];
        count_list[i] = &counts[i];
    }
    window.strings = strings;
    window.frames = frame_list;
    window.stacks = stack_list;
    window.counts = count_list;
    window.n_strings = window.n_frames = window.n_stacks = window.n_counts = 4;
    struct live_view *view = live_view_create(10);
    CHECK(live_view_add(view, &window));
    return view;
}

static void check_calls(struct live_view *view, uint32_t function, const char *const *lines) {
    struct sonde_buf out = draw(view, (struct live_options){.focus = function + 1});
    const char *at = strchr(out.data, '\n') + 1;
    for (; *lines; lines++) {
        const char *found = strstr(at, *lines);
        if (!found)
            check_fail(__FILE__, __LINE__, "no \"%s\" in order in\n%s", *lines, out.data);
        at = found + strlen(*lines);
    }
    CHECK_STR(at, "");
    sonde_buf_finish(&out);
}

TEST(a_focus_shows_callers_and_callees_with_their_shares) {
    struct live_view *view = serving();
    check_calls(view, WORK,
                (const char *const[]){" 78.6 % of all: work\n", "called by\n", " 45.5 %  35.7 %  ",
                                      "  parse\n", " 36.4 %  28.6 %  ", "  serve\n",
                                      " 18.2 %  14.3 %  ", "  main\n", "calls\n",
                                      "100.0 %  78.6 %  ", "  [its own code]\n", NULL});
    /* A function is not its own caller, and a stack counts once although it is there twice. */
    check_calls(view, SERVE,
                (const char *const[]){" 85.7 % of all: serve\n", "called by\n", "100.0 %  85.7 %  ",
                                      "  main\n", "calls\n", " 66.7 %  57.1 %  ", "  parse\n",
                                      " 33.3 %  28.6 %  ", "  work\n", NULL});
    check_calls(view, MAIN,
                (const char *const[]){"100.0 % of all: main\n", "called by\n",
                                      "  [nothing above it]\n", "calls\n", " 85.7 %  85.7 %  ",
                                      "  serve\n", " 14.3 %  14.3 %  ", "  work\n", NULL});
    live_view_destroy(view);
}

/* The line that is marked. */
static const char *marked(struct live_view *view, struct live_options *options) {
    static char line[200];
    struct sonde_buf out = {0};
    unsigned number = live_view_draw(view, options, &out);
    const char *at = out.data;
    for (unsigned i = 1; i < number; i++)
        at = strchr(at, '\n') + 1;
    size_t len = number ? strcspn(at, "\n") : 0, name = len;
    while (name > 0 && at[name - 1] != ' ')
        name--;
    snprintf(line, sizeof line, "%.*s", (int)(len - name), at + name);
    sonde_buf_finish(&out);
    return line;
}

TEST(the_selection_moves_follows_its_row_and_stays_visible) {
    struct live_view *view = serving();
    struct live_options options = {.title = "shop", .filter = "", .rows = 20, .columns = 80};
    CHECK_STR(marked(view, &options), "");
    live_view_move(view, &options, 1);
    CHECK_STR(marked(view, &options), "work");
    live_view_move(view, &options, 10);
    CHECK_STR(marked(view, &options), "serve"); /* after main: both have no time of their own */
    options.by_total = true;
    CHECK_STR(marked(view, &options), "serve");
    live_view_move(view, &options, -1);
    CHECK_STR(marked(view, &options), "main");
    live_view_move(view, &options, 3);
    options.rows = 3; /* room for one row */
    CHECK_STR(marked(view, &options), "parse");
    options.filter = "main";
    CHECK_STR(marked(view, &options), "");
    live_view_move(view, &options, -1);
    CHECK_STR(marked(view, &options), "main");
    options.filter = "nothing";
    live_view_move(view, &options, 1);
    CHECK_INT(options.selected, ==, 0);
    live_view_destroy(view);
}

TEST(enter_leads_from_function_to_function) {
    struct live_view *view = serving();
    struct live_options options = {.title = "shop", .filter = "", .rows = 23, .columns = 80};
    live_view_enter(view, &options);
    CHECK_INT(options.focus, ==, 0); /* nothing is selected */
    live_view_move(view, &options, 1);
    live_view_enter(view, &options);
    CHECK_INT(options.focus, ==, WORK + 1);
    live_view_move(view, &options, -1);
    CHECK_STR(marked(view, &options), "code]");
    live_view_enter(view, &options);
    CHECK_INT(options.focus, ==, WORK + 1); /* its own code has no callers */
    live_view_move(view, &options, -2);
    CHECK_STR(marked(view, &options), "serve");
    live_view_enter(view, &options);
    CHECK_INT(options.focus, ==, SERVE + 1);
    CHECK_STR(marked(view, &options), "");
    options = (struct live_options){
        .title = "shop", .filter = "", .by = LIVE_THREADS, .selected = 1, .rows = 23};
    live_view_enter(view, &options);
    CHECK_INT(options.focus, ==, 0);
    live_view_destroy(view);
}

TEST(callers_and_callees_share_a_small_screen) {
    struct live_view *view = serving();
    struct live_options options = {.filter = "", .focus = WORK + 1, .columns = 60};
    for (options.rows = 4; options.rows < 12; options.rows++) {
        struct sonde_buf out = draw(view, options);
        size_t lines = 0;
        for (const char *at = out.data; *at; at += strcspn(at, "\n") + 1, lines++)
            CHECK_INT(strcspn(at, "\n"), <=, 60);
        CHECK_INT(lines, <=, options.rows);
        CHECK(options.rows < 6 || (strstr(out.data, "parse\n") && strstr(out.data, "own code]\n")));
        sonde_buf_finish(&out);
    }
    live_view_destroy(view);
}

TEST(a_drawing_respects_its_rows_and_columns) {
    struct live_view *view = live_view_create(10);
    CHECK(add(view, true, 300, 100));
    struct sonde_buf out = draw(view, (struct live_options){.rows = 3, .columns = 30});
    size_t lines = 0;
    for (const char *at = out.data; *at; at += strcspn(at, "\n") + 1, lines++)
        CHECK_INT(strcspn(at, "\n"), <=, 30);
    CHECK_INT(lines, ==, 3);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(before_the_first_window_a_view_says_what_is_awaited) {
    struct live_view *view = live_view_create(10);
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK_STR(out.data, "waiting for the first samples of shop ...\n");
    sonde_buf_finish(&out);
    CHECK(add(view, true, 0, 0));
    out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "no samples") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(bars_can_have_colours) {
    struct live_view *view = live_view_create(10);
    CHECK(add(view, true, 850, 150));
    struct sonde_buf out = draw(view, (struct live_options){.has_colour = true});
    CHECK(
        strstr(out.data, " 15.0 %  15.0 %  \033[31m███\033[33m\033[39m                   lib.so"));
    CHECK(strstr(out.data, "100.0 %  \033[31m\033[33m▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒\033[39m  main\n"));
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){.has_colour = true, .columns = 30});
    CHECK(strchr(out.data, '\033') == NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(windows_that_the_service_merged_are_counted) {
    struct live_view *view = live_view_create(10);
    Sonde__V1__CpuWindow late = SONDE__V1__CPU_WINDOW__INIT;
    late.merged = 3;
    CHECK(live_view_add(view, &late));
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "  3 windows merged: this terminal is too slow\n") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(a_window_with_unknown_indexes_is_refused) {
    struct live_view *view = live_view_create(10);
    CHECK(!add(view, false, 1, 1));
    CHECK(add(view, true, 1, 1));
    live_view_destroy(view);
}

TEST(names_with_control_characters_are_made_harmless) {
    struct live_view *view = live_view_create(1);
    Sonde__V1__CpuWindow window = SONDE__V1__CPU_WINDOW__INIT;
    Sonde__V1__StreamFrame frame = SONDE__V1__STREAM_FRAME__INIT, *frames[] = {&frame};
    Sonde__V1__StreamStack stack = SONDE__V1__STREAM_STACK__INIT, *stacks[] = {&stack};
    Sonde__V1__StackCount count = SONDE__V1__STACK_COUNT__INIT, *counts[] = {&count};
    char *strings[] = {(char *)"a\033[2Jb\n\x7f"};
    uint32_t number = 0;
    stack.frames = &number;
    stack.n_frames = window.n_strings = window.n_frames = window.n_stacks = window.n_counts = 1;
    count.cpu_ns = 1;
    window.strings = strings;
    window.frames = frames;
    window.stacks = stacks;
    window.counts = counts;
    CHECK(live_view_add(view, &window));
    struct sonde_buf out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "a?[2Jb??\n") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(control_characters_of_any_length_do_not_reach_the_terminal) {
    struct sonde_buf out = {0};
    live_put_line(&out, "a\x1b\xc2\x9b\xe2\x80\xae\xc3\xbc\xff", 20);
    live_put_line(&out, "\xc3\xbc\xc3\xbc\xc3\xbc", 2);
    CHECK_STR(out.data, "a??????\xc3\xbc?\n\xc3\xbc\xc3\xbc\n");
    sonde_buf_finish(&out);
}

TEST(idle_threads_can_be_hidden) {
    struct live_view *view = live_view_create(10);
    CHECK(add(view, true, 300, 100)); /* 100 have no thread */
    struct sonde_buf out = draw(view, (struct live_options){.hides_idle = true});
    CHECK(strstr(out.data, "idle hidden  cpu ") != NULL);
    CHECK(strstr(out.data, "100.0 % 100.0 %  ####################  lib.so 0x1234\n") != NULL);
    CHECK(strstr(out.data, "hot") == NULL);
    sonde_buf_finish(&out);
    out = draw(view, (struct live_options){0});
    CHECK(strstr(out.data, "hot") != NULL);
    sonde_buf_finish(&out);
    live_view_destroy(view);
}

TEST(idle_threads_of_a_pool_are_hidden_although_their_names_are_equal) {
    for (uint32_t second = 1; second < 3; second++) {
        struct live_view *view = live_view_create(10);
        CHECK(add_pool(view, second));
        struct sonde_buf out = draw(view, (struct live_options){.hides_idle = true});
        CHECK_INT(strstr(out.data, "hot") == NULL, ==, second == 2);
        CHECK_INT(strstr(out.data, "cold") == NULL, ==, second == 2);
        sonde_buf_finish(&out);
        live_view_destroy(view);
    }
}
