/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/explain.h"
#include "tests/unit/check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { ALL, MAIN, SERVE, PARSE, HASH, WRITE, FUNCTIONS };

static struct verdict_cause causes[VERDICT_MAX_CAUSES];

static size_t explain(const uint32_t *parents, const uint32_t *functions, const double *changes,
                      size_t nodes, const bool *is_changed) {
    const struct verdict_tree tree = {.node_count = nodes,
                                      .function_count = FUNCTIONS,
                                      .parents = parents,
                                      .functions = functions,
                                      .changes = changes,
                                      .is_changed = is_changed};
    size_t count;
    CHECK_INT(verdict_explain(&tree, causes, &count), ==, SONDE_OK);
    return count;
}

TEST(the_deepest_function_explains_and_not_its_callers) {
    const uint32_t parents[] = {0, 0, 1, 2, 3, 2};
    const uint32_t functions[] = {ALL, MAIN, SERVE, PARSE, HASH, WRITE};
    const double changes[] = {0, 0.1, 0.1, 0.3, 5, 0.2};
    const bool is_changed[FUNCTIONS] = {false, true, true, true, true, false};
    CHECK_INT(explain(parents, functions, changes, COUNT_OF(parents), is_changed), ==, 1);
    CHECK_INT(causes[0].function, ==, HASH);
    CHECK_INT(causes[0].node, ==, 4);
    CHECK_NEAR(causes[0].change, 5, 1e-9);
}

TEST(a_function_explains_what_its_callees_do_not) {
    const uint32_t parents[] = {0, 0, 1, 2, 3, 2};
    const uint32_t functions[] = {ALL, MAIN, SERVE, PARSE, HASH, WRITE};
    const double changes[] = {0, 0, 0.1, 4, 1.5, -3};
    const bool is_changed[FUNCTIONS] = {false, true, true, true, true, true};
    CHECK_INT(explain(parents, functions, changes, COUNT_OF(parents), is_changed), ==, 3);
    CHECK_INT(causes[0].function, ==, PARSE);
    CHECK_INT(causes[1].function, ==, WRITE);
    CHECK_INT(causes[2].function, ==, HASH);
    CHECK_NEAR(causes[0].change, 5.5, 1e-9);
    CHECK_NEAR(causes[1].change, -3, 1e-9);
}

/* A helper that is called from everywhere is named once, with its largest place, although some of
 * its callers change less than it does. */
TEST(a_function_with_several_callers_is_named_once) {
    const uint32_t parents[] = {0, 0, 1, 2, 1, 4, 1, 6};
    const uint32_t functions[] = {ALL, MAIN, SERVE, HASH, PARSE, HASH, WRITE, HASH};
    const double changes[] = {0, 0, 0, 1, 0, 3, 0.1, 1};
    const bool is_changed[FUNCTIONS] = {false, true, true, true, true, true};
    CHECK_INT(explain(parents, functions, changes, COUNT_OF(parents), is_changed), ==, 1);
    CHECK_INT(causes[0].function, ==, HASH);
    CHECK_INT(causes[0].node, ==, 5);
    CHECK_NEAR(causes[0].change, 5, 1e-9);
}

TEST(recursion_counts_once) {
    const uint32_t parents[] = {0, 0, 1, 2, 3};
    const uint32_t functions[] = {ALL, MAIN, PARSE, HASH, PARSE};
    const double changes[] = {0, 0, 1, 0, 2};
    const bool is_changed[FUNCTIONS] = {false, true, false, true, false};
    CHECK_INT(explain(parents, functions, changes, COUNT_OF(parents), is_changed), ==, 1);
    CHECK_INT(causes[0].function, ==, PARSE);
    CHECK_NEAR(causes[0].change, 3, 1e-9);
}

TEST(nothing_changed_has_no_cause) {
    const uint32_t parents[] = {0, 0};
    const uint32_t functions[] = {ALL, MAIN};
    const double changes[] = {0, 4};
    const bool is_changed[FUNCTIONS] = {false};
    CHECK_INT(explain(parents, functions, changes, COUNT_OF(parents), is_changed), ==, 0);
    CHECK_INT(explain(parents, functions, changes, 0, is_changed), ==, 0);
}
