/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/wildcard.h"
#include "tests/unit/check.h"

TEST(a_star_stands_for_any_characters_and_everything_else_for_itself) {
    static const struct {
        const char *pattern, *name;
        bool matches;
    } rows[] = {
        {"web", "web", true},
        {"web", "web1", false},
        {"*", "", true},
        {"*", "anything", true},
        {"web-*", "web-", true},
        {"web-*", "web", false},
        {"*-db", "main-db", true},
        {"*-db", "db", false},
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "a-c-b", false},
        {"w?b", "web", false},
        {"[w]eb", "web", false},
        {"", "", true},
        {"", "x", false},
        {"**", "x", true},
        {"a*a", "a", false},
        {"a*a", "aa", true},
        {"*ab*ab", "ab-ab", true},
        {"*ab*ab", "xab", false},
        {"*b*", "abc", true},
        {"*b*", "ac", false},
        {"*aab", "aaaab", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (sonde_wildcard_matches(rows[i].pattern, rows[i].name) != rows[i].matches)
            check_fail(__FILE__, __LINE__, "%s and %s", rows[i].pattern, rows[i].name);
}
