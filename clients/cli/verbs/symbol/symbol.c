/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde symbol`: prints one line per address, "0x401f2a parse_header http.c:212 (+0x1a)". Inlined
 * functions come first, with their callers on lines of their own. */
#include "clients/cli/verbs/symbol/symbol.h"

#include "clients/cli/json.h"
#include "clients/cli/verbs/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ADDRESSES   65536
#define DEFAULT_WAIT_MS 2000
#define MAX_WAIT_MS     14000 /* shorter than the deadline of a call */

struct addresses {
    uint64_t *items;
    size_t count;
};

/* Reads a hexadecimal number with 0x in front. */
static bool read_address(const char *word, uint64_t *address) {
    char *end;
    if (strncasecmp(word, "0x", 2) != 0 || !word[2])
        return false;
    errno = 0;
    *address = strtoull(word + 2, &end, 16);
    return *end == 0 && errno == 0 && word[2] != '-' && word[2] != '+' && word[2] != ' ';
}

static void print_frame(const Sonde__V1__SymbolFrame *frame) {
    cli_put_whole_name(stdout, frame->name && frame->name[0] ? frame->name : "?");
    if (frame->file && frame->file[0])
        printf(" %s:%u", frame->file, frame->line);
}

static void print_address(uint64_t address, const Sonde__V1__AddressSymbols *symbols) {
    printf("0x%" PRIx64 " ", address);
    if (symbols->n_frames == 0 && symbols->module && symbols->module[0])
        printf("%s+0x%" PRIx64, symbols->module, symbols->module_offset);
    else if (symbols->n_frames == 0)
        printf("? (not mapped)");
    for (size_t i = 0; i < symbols->n_frames; i++) {
        if (i > 0)
            printf("\n    inlined into ");
        print_frame(symbols->frames[i]);
        if (i + 1 == symbols->n_frames)
            printf(" (+0x%" PRIx64 ")", symbols->frames[i]->offset);
    }
    putchar('\n');
}

/* Reports why symbols are incomplete, once for consecutive addresses with the same reason. */
static void print_reasons(const Sonde__V1__SymbolizeResponse *response) {
    const char *last = "";
    for (size_t i = 0; i < response->n_symbols; i++) {
        const char *reason = response->symbols[i]->reason;
        if (!reason[0] || strcmp(reason, last) == 0)
            continue;
        fprintf(stderr, "sonde symbol: ");
        cli_put_name(stderr, response->symbols[i]->module);
        fprintf(stderr, ": incomplete symbols: %.40s\n", reason);
        last = reason;
    }
}

static sonde_err ask(struct service *service, const struct symbol_settings *settings,
                     const char *target, const struct addresses *addresses,
                     struct sonde_diag *diag) {
    ProtobufCMessage *answer = NULL;
    Sonde__V1__TargetSelector selector;
    service_select(target, &selector);
    Sonde__V1__SymbolizeRequest request = SONDE__V1__SYMBOLIZE_REQUEST__INIT;
    request.target = settings->build_id ? NULL : &selector;
    request.build_id = (char *)(settings->build_id ? settings->build_id : "");
    request.addresses = addresses->items;
    request.n_addresses = addresses->count;
    request.wait_ms = (uint32_t)settings->wait_ms;
    request.kind = settings->returns ? SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__RETURN
                                     : SONDE__V1__SYMBOLIZE_REQUEST__ADDRESS_KIND__EXACT;
    sonde_err err = service_call(service, &client_symbolize, &request.base, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__SymbolizeResponse *response = (const Sonde__V1__SymbolizeResponse *)answer;
    if (settings->json)
        json_print(answer);
    for (size_t i = 0; !settings->json && i < response->n_symbols && i < addresses->count; i++)
        print_address(addresses->items[i], response->symbols[i]);
    fflush(stdout);
    if (!settings->json)
        print_reasons(response);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* Returns the action of --list, --evict or --upload, or NULL; *count is how many were given. */
static symbol_action *other_action(const struct symbol_settings *settings, int *count) {
    const struct {
        bool is_wanted;
        symbol_action *run;
    } actions[] = {{settings->list, symbol_list},
                   {settings->evict != NULL, symbol_evict},
                   {settings->upload != NULL, symbol_upload}};
    symbol_action *chosen = NULL;
    *count = 0;
    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        *count += actions[i].is_wanted;
        chosen = actions[i].is_wanted ? actions[i].run : chosen;
    }
    return chosen;
}

/* Returns 0, or the exit status of a usage error. */
static int read_addresses(int argc, char **argv, int first, struct addresses *addresses) {
    size_t count = argc > first ? (size_t)(argc - first) : 0;
    if (count == 0 || count > MAX_ADDRESSES)
        return cli_usage(&verb_symbol, "give 1 to %d addresses, such as 0x401f2a", MAX_ADDRESSES);
    addresses->items = calloc(count, sizeof *addresses->items);
    addresses->count = count;
    for (size_t i = 0; addresses->items && i < count; i++)
        if (!read_address(argv[first + (int)i], &addresses->items[i]))
            return cli_usage(&verb_symbol, "\"%s\" is not an address such as 0x401f2a",
                             argv[first + (int)i]);
    return addresses->items ? 0 : 1;
}

static int perform(const struct symbol_settings *settings, symbol_action *action,
                   const char *target, const struct addresses *addresses) {
    struct service service;
    struct sonde_diag diag = {0};
    sonde_err err =
        action || settings->build_id
            ? service_open(&service, &settings->service, &diag)
            : service_open_or_start(&service, &settings->service, target != NULL, &diag);
    if (!err)
        err = action ? action(&service, settings, &diag)
                     : ask(&service, settings, target, addresses, &diag);
    service_close(&service);
    return err ? cli_fail(&verb_symbol, err, &diag) : 0;
}

static int on_symbol(int argc, char **argv) {
    struct symbol_settings settings = {.wait_ms = DEFAULT_WAIT_MS};
    struct addresses addresses = {0};
    uint64_t unused;
    int status, count, first = 1;
    if (!cli_options(&verb_symbol, &settings, false, &argc, argv, &status))
        return status;
    symbol_action *action = other_action(&settings, &count);
    if (count > 1 || (action && (argc > 1 || settings.build_id)))
        return cli_usage(&verb_symbol,
                         "--list, --evict and --upload take no addresses and cannot be combined");
    if (!action && !settings.build_id && argc > 1 && !read_address(argv[1], &unused))
        first = 2;
    if (!action)
        status = read_addresses(argc, argv, first, &addresses);
    if (action || status == 0)
        status = perform(&settings, action, first == 2 ? argv[1] : NULL, &addresses);
    free(addresses.items);
    return status;
}

static const struct sonde_option table[] = {
    {"return", 'r', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct symbol_settings, returns), 0, 0,
     "treat addresses as return addresses (resolve the byte before)"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct symbol_settings, json), 0, 0,
     "print the answer as JSON"},
    {"build-id", 'b', "ID", NULL, SONDE_OPTION_TEXT, offsetof(struct symbol_settings, build_id), 0,
     0, "look up addresses of the file with this build-id, mapped or not"},
    {"wait-ms", 'w', "N", NULL, SONDE_OPTION_NUMBER, offsetof(struct symbol_settings, wait_ms), 0,
     MAX_WAIT_MS, "how long to wait for inlined functions and lines (default 2000)"},
    {"list", 'l', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct symbol_settings, list), 0, 0,
     "list the files whose symbols sonded has"},
    {"upload", 'u', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct symbol_settings, upload), 0, 0,
     "upload a debug file to sonded"},
    {"evict", 0, "ID", NULL, SONDE_OPTION_TEXT, offsetof(struct symbol_settings, evict), 0, 0,
     "delete the symbols of this build-id or identity, or of \"all\" files"},
    SERVICE_OPTIONS(struct symbol_settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde symbol [TARGET] ADDRESS... | --list | --upload FILE | --evict ID",
    .about = "Resolves runtime addresses of a target, or addresses of a file, to function names.",
    .examples = "  sonde symbol redis-server 0x55d0c0a01234 0x7f10a2c3d4e5\n"
                "  sonde symbol --build-id 8ab2f2c0 0x401f2a --json\n"
                "  sonde symbol --upload server.debug\n"
                "  sonde symbol --list\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_symbol = {"symbol", "resolve addresses to function names", on_symbol,
                                 &options};
