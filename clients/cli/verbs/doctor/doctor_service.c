/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/doctor/doctor.h"

#include "clients/cli/run/executable.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_TARGETS 16
#define MAX_ADVICE  4 /* lines about processes that are not attached */

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
            "link it without -s, or sonde symbol --upload FILE with the unstripped file",
            "%.60s is stripped: only exported functions have names; the rest show as file+offset",
            target->executable);
    if (!symbols.build_id)
        doctor_report(doctor, FINDING_NOTE, "symbols", "link it with -Wl,--build-id",
                      "%.60s has no build-id, so profiles cannot be matched with debug files",
                      target->executable);
}

/* The library of a running process is that of its start. */
static void check_guest(struct doctor *doctor, const Sonde__V1__Target *target) {
    if (target->guest_version[0] && strcmp(target->guest_version, SONDE_VERSION) != 0)
        doctor_report(doctor, FINDING_NOTE, "target", "restart it when it suits",
                      "%.60s, pid %d, has the guest of version %.20s loaded; this is %s",
                      target->name, target->pid, target->guest_version, SONDE_VERSION);
}

static void check_target(struct doctor *doctor, const Sonde__V1__Target *target) {
    bool has_clock = target->clock && target->clock[0];
    bool is_refused = !has_clock && target->clock_note && target->clock_note[0];
    doctor_report(doctor, is_refused ? FINDING_NOTE : FINDING_OK, "target", NULL,
                  "%.60s, pid %d, %s%.20s%s%.200s", target->name, target->pid,
                  has_clock ? "sampled by " : "not sampled from inside yet", target->clock,
                  target->clock_note && target->clock_note[0] ? ": " : "", target->clock_note);
    check_symbols(doctor, target);
    check_guest(doctor, target);
    if (target->advice[0])
        doctor_report(doctor, FINDING_NOTE, "names", NULL, "%.380s", target->advice);
}

/* Node, Python and Java that were not started for profilers, once for each kind: a machine may have
 * hundreds of processes. */
static void check_unattached(struct doctor *doctor, const Sonde__V1__ListTargetsResponse *list) {
    const char *reported[MAX_ADVICE];
    size_t count = 0;
    for (size_t i = 0; i < list->n_targets && count < MAX_ADVICE; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        size_t same = 0;
        while (same < count && strcmp(reported[same], target->advice) != 0)
            same++;
        if (!target->unattached || !target->advice[0] || same < count)
            continue;
        reported[count++] = target->advice;
        doctor_report(doctor, FINDING_NOTE, "names", NULL, "%.350s (pid %d)", target->advice,
                      target->pid);
    }
}

/* Nothing attaches to a private service. */
static void check_targets(struct doctor *doctor, struct service *service) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer;
    struct sonde_diag diag = {0};
    size_t attached = 0;
    request.include_unattached = request.include_advice = true;
    sonde_err err = service_call(service, &client_list_targets, &request.base, &answer, &diag);
    if (err) {
        doctor_report(doctor, FINDING_FIX, "target", "systemctl restart sonded", "%.300s",
                      sonde_diag_text(&diag, err));
        return;
    }
    const Sonde__V1__ListTargetsResponse *response = (const Sonde__V1__ListTargetsResponse *)answer;
    for (size_t i = 0; i < response->n_targets && attached < MAX_TARGETS; i++) {
        if (response->targets[i]->unattached)
            continue;
        attached++;
        check_target(doctor, response->targets[i]);
    }
    if (attached == 0 && !service->private)
        doctor_report(doctor, FINDING_NOTE, "target", "sonde run -- COMMAND",
                      "no targets attached");
    check_unattached(doctor, response);
    protobuf_c_message_free_unpacked(answer, NULL);
}

static void check_export(struct doctor *doctor, const Sonde__V1__Export *export) {
    char fix[320];
    snprintf(fix, sizeof fix, "curl -v %.250s", export->receiver);
    doctor_report(doctor, export->trouble[0] ? FINDING_FIX : FINDING_OK, "sending",
                  export->trouble[0] ? fix : NULL, "%.20s to %.150s: %llu profiles sent%s%.180s",
                  export->destination, export->receiver, (unsigned long long)export->sent,
                  export->trouble[0] ? "; now they wait in memory: " : "", export->trouble);
    for (size_t i = 0; i < export->n_lost; i++)
        doctor_report(doctor, FINDING_NOTE, "sending",
                      "sonded --export-queue-mib N, if the receiver was away too long",
                      "%llu profiles for %.20s were lost since sonded started: %.40s",
                      (unsigned long long)export->lost[i]->count, export->destination,
                      export->lost[i]->cause);
}

/* What a user's programs have no memory for has another remedy than what came too fast. */
static void report_drop(struct doctor *doctor, const Sonde__V1__Info *info,
                        const Sonde__V1__Drop *drop) {
    unsigned long long count = drop->count, samples = info->samples_total;
    if (strcmp(drop->cause, "jit_names_memory_of_user") == 0)
        doctor_report(doctor, FINDING_NOTE, "drops", "smaller perf maps, or fewer such programs",
                      "names of JIT code were not read %llu times since sonded started: the memory "
                      "that sonded has for their user's programs is used up",
                      count);
    else if (strcmp(drop->cause, "memory_of_user") == 0)
        doctor_report(doctor, FINDING_NOTE, "drops", "fewer programs or captures of that user",
                      "%llu of %llu samples dropped since sonded started: the memory that sonded "
                      "has for one user's programs is used up (%s)",
                      count, samples, drop->cause);
    else
        doctor_report(doctor, FINDING_NOTE, "drops", "sonde record -F 99 (or another lower rate)",
                      "%llu of %llu samples dropped since sonded started: %.40s", count, samples,
                      drop->cause);
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
        doctor_report(doctor, FINDING_NOTE, "service",
                      service->private ? "apt-get install sonde sonded"
                                       : "systemctl restart sonded, or install both from the same "
                                         "release",
                      "sonded is version %.20s, this is %s", info->version, SONDE_VERSION);
    doctor_check_rights(doctor, info);
    for (size_t i = 0; i < info->n_drops_total; i++)
        if (info->drops_total[i]->count > 0)
            report_drop(doctor, info, info->drops_total[i]);
    for (size_t i = 0; i < info->n_exports; i++)
        check_export(doctor, info->exports[i]);
}

/* It has no targets. */
static void check_history_service(struct doctor *doctor, struct service *service) {
    doctor_report(doctor, FINDING_OK, "service", NULL,
                  "a service at %.200s answers that keeps history only", service->address);
    doctor_check_history(doctor, service);
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
    else if (err == SONDE_UNIMPLEMENTED)
        check_history_service(doctor, &service);
    else if (err)
        doctor_report(doctor, FINDING_FIX, "service", "sonde run -- COMMAND", "%.380s",
                      sonde_diag_text(&diag, err));
    if (answer) {
        check_info(doctor, &service, (const Sonde__V1__Info *)answer);
        protobuf_c_message_free_unpacked(answer, NULL);
        check_targets(doctor, &service);
        if (!service.private)
            doctor_check_history(doctor, &service);
    }
    service_close(&service);
}
