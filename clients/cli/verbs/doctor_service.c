/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/doctor.h"

#include "clients/cli/run/executable.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Does nothing if the target's file is not readable here, for example because it is on another
 * machine. */
static void check_symbols(struct doctor *doctor, const Sonde__V1__Target *target) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", target->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    struct executable_symbols symbols = executable_symbols(fd);
    close(fd);
    if (!symbols.is_elf)
        return;
    if (symbols.symtab)
        doctor_report(doctor, FINDING_OK, "symbols", NULL, "%.60s has a symbol table",
                      target->executable);
    else if (symbols.debugdata)
        doctor_report(doctor, FINDING_OK, "symbols", NULL, "%.60s has symbols in .gnu_debugdata",
                      target->executable);
    else
        doctor_report(
            doctor, FINDING_NOTE, "symbols",
            "link it without -s, or strip it with --strip-debug only",
            "%.60s is stripped: only exported functions have names; the rest show as file+offset",
            target->executable);
    if (!symbols.build_id)
        doctor_report(doctor, FINDING_NOTE, "symbols", "link it with -Wl,--build-id",
                      "%.60s has no build-id, so profiles cannot be matched with debug files",
                      target->executable);
}

static void check_target(struct doctor *doctor, const Sonde__V1__Target *target) {
    bool has_clock = target->clock && target->clock[0];
    doctor_report(doctor, FINDING_OK, "target", NULL, "%.60s, pid %d, %s%.20s%s%.200s",
                  target->name, target->pid, has_clock ? "sampled by " : "not sampled yet",
                  target->clock, target->clock_note && target->clock_note[0] ? ": " : "",
                  target->clock_note);
    check_symbols(doctor, target);
}

static void check_targets(struct doctor *doctor, struct service *service) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer;
    struct sonde_diag diag = {0};
    sonde_err err = service_call(service, &client_list_targets, &request.base, &answer, &diag);
    if (err) {
        doctor_report(doctor, FINDING_FIX, "target", NULL, "%.300s", sonde_diag_text(&diag, err));
        return;
    }
    const Sonde__V1__ListTargetsResponse *response = (const Sonde__V1__ListTargetsResponse *)answer;
    if (response->n_targets == 0)
        doctor_report(doctor, FINDING_NOTE, "target", "sonde run -- COMMAND",
                      "no targets attached");
    for (size_t i = 0; i < response->n_targets && i < 16; i++)
        check_target(doctor, response->targets[i]);
    protobuf_c_message_free_unpacked(answer, NULL);
}

static void check_info(struct doctor *doctor, const struct service *service,
                       const Sonde__V1__Info *info) {
    if (service->private)
        doctor_report(doctor, FINDING_OK, "service", NULL,
                      "no sonded is running; `sonde record` and others start one for their time");
    else
        doctor_report(doctor, FINDING_OK, "service", NULL,
                      "sonded %.20s, pid %d, is running at %.200s", info->version, info->pid,
                      service->address);
    if (strcmp(info->version, SONDE_VERSION) != 0)
        doctor_report(doctor, FINDING_NOTE, "service", NULL,
                      "sonded is version %.20s, this is %s; install both from the same build",
                      info->version, SONDE_VERSION);
    doctor_check_rights(doctor, info);
    for (size_t i = 0; i < info->n_drops_total; i++)
        if (info->drops_total[i]->count > 0)
            doctor_report(doctor, FINDING_NOTE, "drops", NULL,
                          "%llu of %llu samples dropped since sonded started: %.40s",
                          (unsigned long long)info->drops_total[i]->count,
                          (unsigned long long)info->samples_total, info->drops_total[i]->cause);
}

void doctor_check_service(struct doctor *doctor) {
    struct service service;
    struct sonde_diag diag = {0};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    request.include_rights = true;
    sonde_err err = service_open_or_start(&service, doctor->settings, true, &diag);
    if (!err)
        err = service_call(&service, &client_get_info, &request.base, &answer, &diag);
    if (err == SONDE_UNAUTHENTICATED || err == SONDE_PERMISSION_DENIED)
        doctor_report(doctor, FINDING_FIX, "service", "export SONDE_TOKEN=...", "%.380s",
                      sonde_diag_text(&diag, err));
    else if (err)
        doctor_report(doctor, FINDING_FIX, "service", "sonded & (or: sonde run -- COMMAND)",
                      "%.380s", sonde_diag_text(&diag, err));
    if (answer) {
        check_info(doctor, &service, (const Sonde__V1__Info *)answer);
        protobuf_c_message_free_unpacked(answer, NULL);
        if (!service.private) {
            check_targets(doctor, &service);
            doctor_check_history(doctor, &service);
        }
    }
    service_close(&service);
}
