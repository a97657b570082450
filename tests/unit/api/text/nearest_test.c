/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/nearest.h"
#include "tests/unit/check.h"

#include <string.h>

static const char *nearest(const char *word) {
    static const char *const names[] = {"run",       "record",  NULL,        "top",    "live",
                                        "frequency", "seconds", "merge-all", "merged", "x"};
    const char *found = sonde_nearest(word, names, sizeof names / sizeof names[0]);
    return found ? found : "none";
}

TEST(a_letter_more_less_or_other_is_near) {
    CHECK_STR(nearest("recrd"), "record");
    CHECK_STR(nearest("reccord"), "record");
    CHECK_STR(nearest("recorf"), "record");
    CHECK_STR(nearest("tp"), "top");
}

TEST(two_neighbours_that_changed_places_are_one_error) {
    CHECK_STR(nearest("rnu"), "run");
    CHECK_STR(nearest("lvie"), "live");
    CHECK_STR(nearest("ercrod"), "record");
}

TEST(case_does_not_matter) {
    CHECK_STR(nearest("SECONDS"), "seconds");
    CHECK_STR(nearest("Frequency"), "frequency");
}

TEST(the_number_of_errors_depends_on_the_length) {
    CHECK_STR(nearest("tope"), "top");
    CHECK_STR(nearest("topes"), "top");
    CHECK_STR(nearest("toes"), "none");
    CHECK_STR(nearest("seocnsd"), "seconds");
    CHECK_STR(nearest("sxcxnxs"), "none");
    CHECK_STR(nearest("frxqxexcy"), "frequency");
    CHECK_STR(nearest("frxqxxxcy"), "none");
}

TEST(the_beginning_of_one_name_means_that_name) {
    CHECK_STR(nearest("freq"), "frequency");
    CHECK_STR(nearest("sec"), "seconds");
    CHECK_STR(nearest("fr"), "none");
    CHECK_STR(nearest("mer"), "none"); /* merge-all or merged */
}

TEST(nothing_is_near_an_empty_an_unlike_or_an_endless_word) {
    char endless[200];
    memset(endless, 'r', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    CHECK_STR(nearest(""), "none");
    CHECK_STR(nearest("y"), "none");
    CHECK_STR(nearest("zzzzzz"), "none");
    CHECK_STR(nearest(endless), "none");
    CHECK(sonde_nearest("run", NULL, 0) == NULL);
}

TEST(the_nearest_of_several_is_found) {
    static const char *const names[] = {"merges", "merge", "emerge"};
    CHECK_STR(sonde_nearest("merg", names, 3), "merge");
    CHECK_STR(sonde_nearest("mergex", names, 3), "merges");
}

TEST(long_names_and_words_of_the_largest_size_are_compared) {
    char word[41], name[41], longer[43];
    memset(word, 'a', 40);
    memset(name, 'a', 40);
    memset(longer, 'a', 42);
    word[40] = name[40] = longer[42] = 0;
    word[20] = 'b';
    const char *const names[] = {longer, name};
    CHECK(sonde_nearest(word, names, 1) == NULL);
    CHECK(sonde_nearest(word, names, 2) == name);
}
