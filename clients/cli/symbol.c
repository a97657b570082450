/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde symbol`: one line an address, "0x401f2a parse_header http.c:212 (+0x1a)"; functions that
 * were inlined there come first, their callers on lines of their own. */
#include "clients/cli/cli.h"
#include "clients/cli/json.h"
#include "clients/cli/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ADDRESSES 65536

struct settings {
    struct service_settings service;
    bool json, returns;
};

/* Hexadecimal, with 0x in front. */
static bool read_address(const char *word, uint64_t *address) {
    char *end;
    if (strncasecmp(word, "0x", 2) != 0 || !word[2])
        return false;
    errno = 0;
    *address = strtoull(word + 2, &end, 16);
    return *end == 0 && errno == 0 && word[2] != '-' && word[2] != '+' && word[2] != ' ';
}

static void print_frame(const Sonde__V1__SymbolFrame *frame) {
    cli_put_name(stdout, frame->name && frame->name[0] ? frame->name : "?");
    if (frame->file && frame->file[0])
        printf(" %s:%u", frame->file, frame->line);
}

static void print_address(uint64_t address, const Sonde__V1__AddressSymbols *symbols) {
    printf("0x%" PRIx64 " ", address);
    if (symbols->n_frames == 0 && symbols->module && symbols->module[0])
        printf("%s+0x%" PRIx64, symbols->module, symbols->module_offset);
    else if (symbols->n_frames == 0)
        printf("? (in no mapping)");
    for (size_t i = 0; i < symbols->n_frames; i++) {
        if (i > 0)
            printf("\n    inlined into ");
        print_frame(symbols->frames[i]);
        if (i + 1 == symbols->n_frames)
            printf(" (+0x%" PRIx64 ")", symbols->frames[i]->offset);
    }
    putchar('\n');
}

static int ask(const struct settings *settings, const char *target, uint64_t *addresses,
               size_t count) {
    struct sonde_diag diag = {0};
    struct service service;
    ProtobufCMessage *answer = NULL;
    Sonde__V1__TargetSelector selector;
    service_select(target, &selector);
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    request.target = &selector;
    request.addresses = addresses;
    request.n_addresses = count;
    request.kind = settings->returns ? SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN
                                     : SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__EXACT;
    sonde_err err = service_open(&service, &settings->service, &diag);
    if (!err)
        err = service_ask(&service, &client_symbolize, &request.base, &answer, &diag);
    service_close(&service);
    if (err)
        return cli_fail(&verb_symbol, err, &diag);
    const Sonde__V1__SymbolizeResponse *response = (const Sonde__V1__SymbolizeResponse *)answer;
    if (settings->json)
        json_print(answer);
    for (size_t i = 0; !settings->json && i < response->n_symbols && i < count; i++)
        print_address(addresses[i], response->symbols[i]);
    protobuf_c_message_free_unpacked(answer, NULL);
    return 0;
}

static int on_symbol(int argc, char **argv) {
    struct settings settings = {0};
    int status;
    if (!cli_options(&verb_symbol, &settings, false, &argc, argv, &status))
        return status;
    uint64_t unused;
    int first = argc > 1 && !read_address(argv[1], &unused) ? 2 : 1;
    size_t count = argc > first ? (size_t)(argc - first) : 0;
    if (count == 0 || count > MAX_ADDRESSES)
        return cli_usage(&verb_symbol, "give 1 to %d addresses, such as 0x401f2a", MAX_ADDRESSES);
    uint64_t *addresses = calloc(count, sizeof *addresses);
    for (size_t i = 0; addresses && i < count; i++)
        if (!read_address(argv[first + (int)i], &addresses[i])) {
            free(addresses);
            return cli_usage(&verb_symbol, "\"%s\" is not an address such as 0x401f2a",
                             argv[first + (int)i]);
        }
    status = addresses ? ask(&settings, first == 2 ? argv[1] : NULL, addresses, count) : 1;
    free(addresses);
    return status;
}

static const struct sonde_option table[] = {
    {"return", 'r', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, returns), 0, 0,
     "they are return addresses: look one byte before"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "the answer as JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde symbol [TARGET] ADDRESS...",
    .about = "Tells which functions lie at runtime addresses of a target.",
    .examples = "  sonde symbol 0x401f2a\n"
                "  sonde symbol redis-server 0x55d0c0a01234 0x7f10a2c3d4e5\n"
                "  sonde symbol 4711 --return 0x401f2a\n"
                "  sonde symbol --json 0x401f2a\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_symbol = {"symbol", "tell which functions lie at addresses", on_symbol,
                                 &options};
