/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/secrets/tokens.h"

#include "tests/unit/check.h"

#define MIN_LEN 16

#define READ_TOKEN    "read-read-read-read"
#define CONTROL_TOKEN "control-control-control"
#define BOTH_TOKEN    "both-both-both-both"

static const char file_text[] =
    "# who\n\n" READ_TOKEN " read\n  " CONTROL_TOKEN "\tcontrol # no comment here\n";

static struct sonde_diag diag;

static unsigned scopes(const struct sonde_tokens *tokens, const char *header) {
    return sonde_tokens_find(tokens, sonde_slice_of(header)).scopes;
}

TEST(tokens_have_the_scopes_of_their_line) {
    struct sonde_tokens *tokens = NULL;
    const char *text =
        "# who\n\n" READ_TOKEN " read\n  " CONTROL_TOKEN "\tcontrol,read\r\n" BOTH_TOKEN;
    CHECK_INT(sonde_tokens_parse(sonde_slice_of(text), MIN_LEN, &tokens, &diag), ==, SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer " READ_TOKEN), ==, SONDE_SCOPE_READ);
    CHECK_INT(scopes(tokens, "bearer " CONTROL_TOKEN), ==, SONDE_SCOPE_READ | SONDE_SCOPE_CONTROL);
    CHECK_INT(scopes(tokens, "Bearer " BOTH_TOKEN), ==,
              SONDE_SCOPE_READ | SONDE_SCOPE_CONTROL | SONDE_SCOPE_REGISTER);
    sonde_tokens_destroy(tokens);
}

TEST(a_token_to_register_can_do_nothing_else) {
    struct sonde_tokens *tokens = NULL;
    CHECK_INT(sonde_tokens_parse(sonde_slice_of(BOTH_TOKEN " register\n"), MIN_LEN, &tokens, &diag),
              ==, SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer " BOTH_TOKEN), ==, SONDE_SCOPE_REGISTER);
    sonde_tokens_destroy(tokens);
}

TEST(unknown_or_malformed_tokens_have_no_scopes) {
    struct sonde_tokens *tokens = NULL;
    char longest[400] = "Bearer ";
    memset(longest + 7, 'x', 390);
    CHECK_INT(sonde_tokens_parse(sonde_slice_of(READ_TOKEN), MIN_LEN, &tokens, &diag), ==,
              SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer " READ_TOKEN "x"), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer read-read-read-rea"), ==, 0);
    CHECK_INT(scopes(tokens, "Basic " READ_TOKEN), ==, 0);
    CHECK_INT(scopes(tokens, READ_TOKEN), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer"), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer "), ==, 0);
    CHECK_INT(scopes(tokens, ""), ==, 0);
    CHECK_INT(scopes(tokens, longest), ==, 0);
    sonde_tokens_destroy(tokens);
}

static void refused(const char *text, const char *sentence) {
    struct sonde_tokens *tokens = NULL;
    CHECK_INT(sonde_tokens_parse(sonde_slice_of(text), MIN_LEN, &tokens, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, sentence);
}

TEST(token_file_errors_name_the_line) {
    refused("", "the token file has no tokens");
    refused("# nothing\n", "the token file has no tokens");
    refused(READ_TOKEN "\nshort\n", "token file, line 2: a token must have 16 to 256 characters");
    refused(READ_TOKEN " write\n", "token file, line 1: a scope must be read, control or register");
    refused(file_text, "token file, line 4: a scope must be read, control or register");
}

TEST(the_caller_sets_the_minimum_length) {
    struct sonde_tokens *tokens = NULL;
    CHECK_INT(sonde_tokens_parse(sonde_slice_of("# x\nshort read"), 1, &tokens, &diag), ==,
              SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer short"), ==, SONDE_SCOPE_READ);
    CHECK_STR(sonde_tokens_first(tokens).data, "short");
    sonde_tokens_destroy(tokens);
}
