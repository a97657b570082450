/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/doctor/doctor.h"

#include "api/text/utf8.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/verbs.h"

#include <stdarg.h>
#include <stdio.h>

#define DEFAULT_SECONDS 2

struct settings {
    struct service_settings service;
    const char *unwind, *save_stack;
    double seconds;
    bool json;
};

static void (*const checks[])(struct doctor *) = {
    doctor_check_programs, doctor_check_units,   doctor_check_settings, doctor_check_clock,
    doctor_check_sysctls,  doctor_check_limits,  doctor_check_time,     doctor_check_data,
    doctor_check_services, doctor_check_service,
};

static const char *const state_words[] = {"ok", "note", "fix"};

void doctor_report(struct doctor *doctor, enum finding_state state, const char *subject,
                   const char *fix, const char *format, ...) {
    if (doctor->count == DOCTOR_MAX_FINDINGS)
        return;
    struct finding *finding = &doctor->findings[doctor->count++];
    finding->state = state;
    finding->subject = subject;
    snprintf(finding->fix, sizeof finding->fix, "%s", fix ? fix : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    sonde_utf8_replace(finding->text, '?'); /* it may have a target's or a machine's name */
    sonde_utf8_replace(finding->fix, '?');
}

static void print_text(const struct finding *finding) {
    printf("%-5s %-9s %s\n", state_words[finding->state], finding->subject, finding->text);
    if (finding->fix[0])
        printf("%-5s %-9s   %s\n", "", "", finding->fix);
}

static void print_json(const struct doctor *doctor) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "{\"findings\":[");
    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *finding = &doctor->findings[i];
        sonde_buf_printf(&text, "%s{\"state\":\"%s\",\"subject\":\"%s\",\"text\":", i ? "," : "",
                         state_words[finding->state], finding->subject);
        json_text(&text, finding->text);
        sonde_buf_puts(&text, ",\"mend\":");
        json_text(&text, finding->fix);
        sonde_buf_putc(&text, '}');
    }
    sonde_buf_puts(&text, "]}");
    if (!text.failed)
        puts(text.data);
    sonde_buf_finish(&text);
}

static int on_doctor(int argc, char **argv) {
    static struct doctor doctor; /* too large for the stack */
    struct settings settings = {.seconds = DEFAULT_SECONDS};
    int status;
    if (!cli_options(&verb_doctor, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 1)
        return cli_usage(&verb_doctor, "unexpected argument \"%s\"", argv[1]);
    if (settings.unwind)
        return doctor_check_unwind(&verb_doctor, &settings.service, settings.unwind,
                                   settings.seconds, settings.json, settings.save_stack);
    if (settings.save_stack)
        return cli_usage(&verb_doctor, "--save-stack needs --unwind TARGET");
    doctor.settings = &settings.service;
    for (size_t i = 0; i < COUNT_OF(checks); i++)
        checks[i](&doctor);
    size_t broken = 0;
    for (size_t i = 0; i < doctor.count; i++) {
        if (!settings.json)
            print_text(&doctor.findings[i]);
        broken += doctor.findings[i].state == FINDING_FIX;
    }
    if (settings.json)
        print_json(&doctor);
    return broken ? 1 : 0;
}

static const struct sonde_option table[] = {
    {"unwind", 0, "TARGET", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, unwind), 0, 0,
     "compare stack walks of this process (pid or name) with libunwind's"},
    {"duration", 'd', "SECONDS", NULL, SONDE_OPTION_SECONDS, offsetof(struct settings, seconds),
     0.1, 60, "unwind: how long to sample (default 2)"},
    {"save-stack", 0, "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, save_stack), 0, 0,
     "unwind: save a stack whose walk ended early"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0, "print JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde doctor [--json]\n"
             "       sonde doctor --unwind TARGET [-d SECONDS] [--save-stack FILE] [--json]",
    .about = "Checks what works on this machine and suggests a fix for what does not.\n"
             "Exits with status 1 if something needs fixing.\n"
             "With --unwind, compares how Sonde and libunwind walk the stacks of a running "
             "process,\n"
             "and prints where they differ. Exits with status 1 if nothing could be compared.\n"
             "With --save-stack as well, saves the registers, stack memory and unwind tables of a "
             "stack\n"
             "whose walk ended early, for a bug report. The memory may hold secrets: look first.",
    .examples = "  sonde doctor\n"
                "  sonde doctor --json | jq '.findings[] | select(.state == \"fix\")'\n"
                "  sonde doctor --unwind redis-server -d 10 --save-stack redis.stack\n"
                "  sonde doctor --service 10.0.0.7:20179 --token \"$TOKEN\"\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_doctor = {"doctor", "check this machine and suggest fixes", on_doctor,
                                 &options};
