/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/doctor/doctor.h"

#include "clients/cli/capture.h"
#include "clients/cli/history.h"

#include <inttypes.h>
#include <stdio.h>

#define NS_PER_MINUTE 60e9

static void format_age(const Sonde__V1__HistoryInfo *info, char text[32]) {
    double minutes = (double)(history_now_ns() - info->first_unix_ns) / NS_PER_MINUTE;
    if (minutes < 120)
        snprintf(text, 32, "the last %.0f minutes", minutes);
    else if (minutes < 48 * 60)
        snprintf(text, 32, "the last %.0f hours", minutes / 60);
    else
        snprintf(text, 32, "the last %.1f days", minutes / (24 * 60));
}

static void report_size(struct doctor *doctor, const Sonde__V1__HistoryInfo *info) {
    char age[32], limit[40] = "";
    format_age(info, age);
    if (info->size_limit_bytes)
        snprintf(limit, sizeof limit, " of at most %.1f", (double)info->size_limit_bytes / 0x1p20);
    doctor_report(doctor, FINDING_OK, "history", NULL,
                  "%.20s at %.150s has %s: %" PRIu64 " windows in %.1f%s MiB", info->engine,
                  info->place, info->first_unix_ns ? age : "nothing yet", info->windows,
                  (double)info->size_bytes / 0x1p20, limit);
}

/* Which processes are recorded, since when, and why others are not. */
static void report_processes(struct doctor *doctor, const Sonde__V1__HistoryInfo *info) {
    char since[CAPTURE_TIME_BYTES];
    bool is_refused = info->refusal[0] != 0;
    if (info->recording_since_unix_ns)
        doctor_report(doctor, is_refused ? FINDING_NOTE : FINDING_OK, "history",
                      is_refused ? "run sonded as root, or grant it the rights above" : NULL,
                      "%s recorded since %s: %u processes, %u of them by their guests",
                      is_refused ? "processes of sonded's user are" : "every process is",
                      capture_time_text(info->recording_since_unix_ns, since),
                      info->recording_targets, info->recording_guests);
    else
        doctor_report(doctor, FINDING_NOTE, "history",
                      is_refused ? "run sonded as root, or grant it the rights above"
                                 : "start sonded without --history-guests",
                      "only processes that have the guest are recorded: %u",
                      info->recording_targets);
    if (is_refused)
        doctor_report(doctor, FINDING_NOTE, "history", NULL,
                      "processes without the guest are not recorded: %.300s", info->refusal);
}

/* Not every service has a history: nothing has to be mended. */
static void report_none(struct doctor *doctor, sonde_err err, const struct sonde_diag *diag) {
    bool is_absent = err == SONDE_NOT_AVAILABLE;
    doctor_report(doctor, is_absent ? FINDING_NOTE : FINDING_FIX, "history",
                  is_absent ? "sonded --history, or sonde run --history -- COMMAND"
                            : "systemctl restart sonded",
                  "%s%.350s", is_absent ? "history is off: " : "", sonde_diag_text(diag, err));
}

void doctor_check_history(struct doctor *doctor, struct service *service) {
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    ProtobufCMessage *answer;
    struct sonde_diag diag = {0};
    sonde_err err = service_call(service, &client_get_history_info, &request.base, &answer, &diag);
    if (err) {
        if (err != SONDE_UNIMPLEMENTED) /* a service without the interface, as sonde-collect is */
            report_none(doctor, err, &diag);
        return;
    }
    const Sonde__V1__HistoryInfo *info = (const void *)answer;
    report_size(doctor, info);
    if (info->is_recording)
        report_processes(doctor, info);
    if (info->off_cpu_left_out)
        doctor_report(doctor, FINDING_NOTE, "history",
                      "a narrower --history-off-cpu, or sonde run -- COMMAND: guests have no limit",
                      "%u processes have no off-CPU time: at most 64 without the guest have it",
                      info->off_cpu_left_out);
    char fix[200];
    snprintf(fix, sizeof fix, "df -h %.150s", info->place);
    if (info->trouble[0])
        doctor_report(doctor, FINDING_FIX, "history", fix, "nothing is stored: %.350s",
                      info->trouble);
    if (info->dropped || info->lost_windows)
        doctor_report(doctor, FINDING_NOTE, "history", "sonde history --list (what is complete)",
                      "%" PRIu64 " samples were dropped while recording; %" PRIu64
                      " windows could not be stored",
                      info->dropped, info->lost_windows);
    protobuf_c_message_free_unpacked(answer, NULL);
}
