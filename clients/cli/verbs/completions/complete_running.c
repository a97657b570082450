/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes choose their names, and a completion script passes them to a shell. Only names without
 * special characters are offered. Nothing is started, and nothing waits for more than 2 seconds. */
#include "clients/cli/service.h"
#include "clients/cli/services.h"
#include "clients/cli/verbs/completions/complete.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NAMES  2000
#define TIMEOUT_MS 2000
#define PLAIN                                                          \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._" \
    "-+@"

/* Not an option either. */
static bool is_plain(const char *name) {
    return *name && *name != '-' && strspn(name, PLAIN) == strlen(name);
}

/* Asks the sonded that SONDE_SERVICE names, or every own one that is running. */
static void ask(const struct client_method *method, const ProtobufCMessage *request,
                service_on_message *print) {
    struct service_settings settings = {.token = getenv("SONDE_TOKEN")};
    const char *named = getenv("SONDE_SERVICE");
    struct found_services found = {.count = 1};
    if (!named)
        services_find(&found);
    for (size_t i = 0; i < found.count; i++) {
        struct service service;
        settings.address = named ? named : found.items[i].address;
        if (!named && !found.items[i].is_own)
            continue;
        if (service_open(&service, &settings, NULL) == SONDE_OK)
            (void)!service_stream(&service, method, request, TIMEOUT_MS, print, NULL, NULL);
        service_close(&service);
    }
}

static bool on_targets(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    (void)context;
    for (size_t i = 0; i < list->n_targets; i++)
        if (is_plain(list->targets[i]->name))
            printf("%s\tattached, pid %d\n", list->targets[i]->name, list->targets[i]->pid);
    return true;
}

void complete_targets(void) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ask(&client_list_targets, &request.base, on_targets);
}

/* Reads the name of a process of this user, or for root of any; false for kernel threads. */
static bool read_name(const char *pid, char name[64]) {
    char path[64], exe[8];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%.16s/exe", pid);
    if (readlink(path, exe, sizeof exe) <= 0)
        return false;
    snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    FILE *file = stat(path, &info) == 0 ? fopen(path, "re") : NULL;
    bool has_name = file && fgets(name, 64, file);
    if (file)
        fclose(file);
    if (has_name)
        name[strcspn(name, "\n")] = 0;
    return has_name && is_plain(name);
}

static int compare(const void *a, const void *b) {
    return strcmp(a, b);
}

void complete_processes(void) {
    char(*names)[64] = calloc(MAX_NAMES, sizeof *names);
    DIR *processes = names ? opendir("/proc") : NULL;
    size_t count = 0;
    complete_targets();
    for (struct dirent *entry; processes && (entry = readdir(processes)) && count < MAX_NAMES;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            strtol(entry->d_name, NULL, 10) != getpid())
            count += read_name(entry->d_name, names[count]);
    if (processes)
        closedir(processes);
    qsort(names, count, sizeof *names, compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            puts(names[i]);
    free(names);
}

static bool on_captures(void *context, const ProtobufCMessage *message) {
    const Sonde__V1__ListCapturesResponse *list = (const void *)message;
    (void)context;
    for (size_t i = list->n_captures; i-- > 0;) {
        const Sonde__V1__Capture *capture = list->captures[i];
        printf("%" PRIu64 "\t%s, %.1f s", capture->id, capture->kind, capture->duration_ms / 1e3);
        if (is_plain(capture->target))
            printf(" of %s", capture->target);
        putchar('\n');
    }
    return true;
}

void complete_captures(void) {
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    ask(&client_list_captures, &request.base, on_captures);
}

void complete_services(void) {
    struct found_services found;
    services_find(&found);
    services_ask(&found, NULL, getenv("SONDE_TOKEN"));
    for (size_t i = 0; i < found.count; i++)
        printf("%s\t%s\n", found.items[i].address,
               found.items[i].targets ? found.items[i].names : "no targets");
}
