/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde symbol --list`, `--evict` and `--upload`. */
#include "clients/cli/cli.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/symbol/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)256 << 10)

static const char *const qualities[] = {"-", "exports", "names", "full"};
static const char *const states[] = {"known", "ready", "converting", "failed"};

#define NAME_OF(table, value) ((size_t)(value) < COUNT_OF(table) ? (table)[value] : "?")

/* ---- The list ---- */

#define ROW "%-7s %-10s %-8s %11s  %-19s  %-40s "

static void print_file(const Sonde__V1__SymbolFile *file) {
    char size[CLI_VALUE_BYTES], used[CLI_VALUE_BYTES];
    printf(ROW, file->kind == SONDE__V1__SYMBOL_FILE__KIND__UPLOAD ? "upload" : "tables",
           NAME_OF(states, file->state), NAME_OF(qualities, file->quality),
           cli_size_text(file->bytes, size), cli_time_text(file->used_unix_ns, used),
           file->build_id[0] ? file->build_id : "-");
    cli_put_name(stdout, file->name[0] ? file->name : "-");
    if (file->reason[0]) {
        putchar(' ');
        cli_put_name(stdout, file->reason);
    }
    if (file->detail[0]) {
        fputs(": ", stdout);
        cli_put_name(stdout, file->detail);
    }
    putchar('\n');
}

sonde_err symbol_list(struct service *service, const struct symbol_settings *settings,
                      struct sonde_diag *diag) {
    Sonde__V1__ListSymbolFilesRequest request = SONDE__V1__LIST_SYMBOL_FILES_REQUEST__INIT;
    ProtobufCMessage *answer;
    sonde_err err = service_call(service, &client_list_symbol_files, &request.base, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__ListSymbolFilesResponse *response = (const void *)answer;
    if (settings->json)
        json_print(answer);
    else if (response->n_files == 0)
        puts("no symbol files yet");
    else
        printf(ROW "NAME\n", "KIND", "STATE", "QUALITY", "SIZE", "LAST USE", "BUILD-ID");
    for (size_t i = 0; !settings->json && i < response->n_files; i++)
        print_file(response->files[i]);
    if (!settings->json && response->cut)
        puts("... and more");
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- Eviction ---- */

sonde_err symbol_evict(struct service *service, const struct symbol_settings *settings,
                       struct sonde_diag *diag) {
    Sonde__V1__EvictSymbolsRequest request = SONDE__V1__EVICT_SYMBOLS_REQUEST__INIT;
    ProtobufCMessage *answer;
    char size[CLI_VALUE_BYTES];
    request.all = strcmp(settings->evict, "all") == 0;
    request.id = request.all ? (char *)"" : (char *)settings->evict;
    request.uploads = true;
    sonde_err err = service_call(service, &client_evict_symbols, &request.base, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__EvictSymbolsResponse *response = (const void *)answer;
    if (settings->json)
        json_print(answer);
    else
        printf("%u file%s removed, %s\n", response->files, response->files == 1 ? "" : "s",
               cli_size_text(response->bytes, size));
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- Upload ---- */

struct upload {
    int fd;
    bool json;
    Sonde__V1__UploadDebugFileRequest request;
    uint8_t bytes[CHUNK];
};

/* Reads the next chunk. False at the end of the file or on an error; sonded notices a file that is
 * too short. */
static bool read_chunk(struct upload *upload) {
    ssize_t got;
    do
        got = read(upload->fd, upload->bytes, sizeof upload->bytes);
    while (got < 0 && errno == EINTR);
    upload->request.chunk.data = upload->bytes;
    upload->request.chunk.len = got > 0 ? (size_t)got : 0;
    return got > 0;
}

static void on_sent(void *context, struct client_call *call) {
    struct upload *upload = context;
    upload->request.size_bytes = 0;
    client_call_send(call, read_chunk(upload) ? &upload->request.base : NULL);
}

static bool on_kept(void *context, const ProtobufCMessage *message) {
    struct upload *upload = context;
    const Sonde__V1__SymbolFile *file = (const void *)message;
    if (upload->json)
        json_print(message);
    else
        printf("stored as the debug file of build-id %s (%s)\n", file->build_id,
               NAME_OF(qualities, file->quality));
    return true;
}

sonde_err symbol_upload(struct service *service, const struct symbol_settings *settings,
                        struct sonde_diag *diag) {
    struct stat about;
    struct upload *upload = calloc(1, sizeof *upload);
    if (!upload)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = SONDE_OK;
    sonde__v1__upload_debug_file_request__init(&upload->request);
    upload->json = settings->json;
    /* A FIFO must not be waited for: signals are blocked. */
    upload->fd = open(settings->upload, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (upload->fd < 0 || fstat(upload->fd, &about) != 0)
        err = sonde_fail_os(diag, errno, "cannot read %s", settings->upload);
    else if (!S_ISREG(about.st_mode) || about.st_size == 0)
        err = sonde_fail(diag, SONDE_IO, "%s is empty or not a regular file", settings->upload);
    if (!err) {
        upload->request.size_bytes = (uint64_t)about.st_size;
        read_chunk(upload);
        err = service_upload(service, &client_upload_debug_file, &upload->request.base, on_sent,
                             on_kept, upload, diag);
    }
    if (upload->fd >= 0)
        close(upload->fd);
    free(upload);
    return err;
}
