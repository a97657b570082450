/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/machine.h"
#include "tests/unit/check.h"

static void describe(const char *before, const char *after, double own, char text[128]) {
    struct machine_times times[2] = {{.at = 100}, {.at = 110, .own = own}};
    CHECK(machine_times_parse(before, 100, &times[0]));
    CHECK(machine_times_parse(after, 100, &times[1]));
    machine_describe(&times[0], &times[1], text, 128);
}

TEST(the_work_of_others_and_stolen_time_are_named) {
    char text[128];
    describe("cpu  100 0 0 0 0 0 0 0 0 0", "cpu  1100 0 0 900 0 0 0 0 0 0", 9.9, text);
    CHECK_STR(text, "");
    describe("cpu  100 0 0 0 0 0 0 0 0 0", "cpu  1000 300 40 900 50 5 55 0 0 0", 9.9, text);
    CHECK_STR(text, "0.31 CPUs were busy with other work");
    describe("cpu  100 0 0 0 0 0 0 0 0 0", "cpu  1100 0 0 900 0 0 0 30 0 0", 9.9, text);
    CHECK_STR(text, "0.03 CPUs were stolen by the hypervisor");
    describe("cpu  100 0 0 0 0 0 0 0 0 0", "cpu  1500 0 0 900 0 0 0 1000 0 0", 10, text);
    CHECK_STR(text, "0.40 CPUs were busy with other work, 1.00 CPUs were stolen by the hypervisor");
}

TEST(an_unknown_proc_stat_says_nothing) {
    struct machine_times times = {0}, unknown = {.at = 5};
    char text[128] = "x";
    CHECK(!machine_times_parse("intr 1 2 3", 100, &times));
    CHECK(!machine_times_parse("", 100, &times));
    machine_describe(&times, &unknown, text, sizeof text);
    CHECK_STR(text, "");
}
