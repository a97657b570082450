/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/tokens.h"

#include "service/rpc/call.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_TOKEN    "read-read-read-read"
#define CONTROL_TOKEN "control-control-control"
#define BOTH_TOKEN    "both-both-both-both"

static const char file_text[] =
    "# who\n\n" READ_TOKEN " read\n  " CONTROL_TOKEN "\tcontrol # no comment here\n";

static struct sonde_diag diag;

static unsigned scopes(const struct rpc_tokens *tokens, const char *header) {
    return rpc_tokens_scopes(tokens, sonde_slice_of(header));
}

TEST(tokens_allow_what_their_line_says) {
    struct rpc_tokens *tokens = NULL;
    const char *text =
        "# who\n\n" READ_TOKEN " read\n  " CONTROL_TOKEN "\tcontrol,read\r\n" BOTH_TOKEN;
    CHECK_INT(rpc_tokens_parse(sonde_slice_of(text), &tokens, &diag), ==, SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer " READ_TOKEN), ==, RPC_SCOPE_READ);
    CHECK_INT(scopes(tokens, "bearer " CONTROL_TOKEN), ==, RPC_SCOPE_READ | RPC_SCOPE_CONTROL);
    CHECK_INT(scopes(tokens, "Bearer " BOTH_TOKEN), ==, RPC_SCOPE_READ | RPC_SCOPE_CONTROL);
    rpc_tokens_destroy(tokens);
}

TEST(tokens_that_are_wrong_allow_nothing) {
    struct rpc_tokens *tokens = NULL;
    char longest[400] = "Bearer ";
    memset(longest + 7, 'x', 390);
    CHECK_INT(rpc_tokens_parse(sonde_slice_of(READ_TOKEN), &tokens, &diag), ==, SONDE_OK);
    CHECK_INT(scopes(tokens, "Bearer " READ_TOKEN "x"), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer read-read-read-rea"), ==, 0);
    CHECK_INT(scopes(tokens, "Basic " READ_TOKEN), ==, 0);
    CHECK_INT(scopes(tokens, READ_TOKEN), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer"), ==, 0);
    CHECK_INT(scopes(tokens, "Bearer "), ==, 0);
    CHECK_INT(scopes(tokens, ""), ==, 0);
    CHECK_INT(scopes(tokens, longest), ==, 0);
    rpc_tokens_destroy(tokens);
}

static void refused(const char *text, const char *sentence) {
    struct rpc_tokens *tokens = NULL;
    CHECK_INT(rpc_tokens_parse(sonde_slice_of(text), &tokens, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, sentence);
}

TEST(token_file_mistakes_are_told_with_their_line) {
    refused("", "the token file holds no token");
    refused("# nothing\n", "the token file holds no token");
    refused(READ_TOKEN "\nshort\n", "token file, line 2: a token has 16 to 256 characters");
    refused(READ_TOKEN " write\n", "token file, line 1: a scope is read or control");
    refused(file_text, "token file, line 4: a scope is read or control");
}

TEST(token_file_that_everybody_may_read_is_refused) {
    char path[] = "/tmp/x.XXXXXX";
    struct rpc_tokens *tokens = NULL;
    int fd = mkstemp(path);
    CHECK_INT(write(fd, READ_TOKEN, strlen(READ_TOKEN)), ==, strlen(READ_TOKEN));
    fchmod(fd, 0644);
    sonde_err open_err = rpc_tokens_read(path, &tokens, &diag);
    fchmod(fd, 0640);
    sonde_err closed_err = rpc_tokens_read(path, &tokens, &diag);
    close(fd);
    unlink(path);
    CHECK_INT(open_err, ==, SONDE_PERMISSION_DENIED);
    CHECK_INT(closed_err, ==, SONDE_OK);
    rpc_tokens_destroy(tokens);
}
