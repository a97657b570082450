/* SPDX-License-Identifier: Apache-2.0
 *
 *     412 stacks with 9120 frames compared with libunwind's
 *     equal: 99.8 % of stacks, 99.9 % of frames
 *     walked to the root: 100.0 % by Sonde, 99.5 % by libunwind
 *
 *     1 stack differs in the caller of dictFind, redis-server+0x4a1c2
 *       Sonde     0x55d0c01b2a10, by cfa=rsp+16 rbp=cfa-16
 *       libunwind no caller, by CFA=rsp+24 ra=c-8 */
#include "clients/cli/json.h"
#include "clients/cli/output.h"
#include "clients/cli/verbs/doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NAME_BYTES 300
#define MARGIN_MS  180000u /* for opening the files, and for libunwind */
#define MS_PER_S   1000.0

static void format_place(const Sonde__V1__UnwindDifference *difference, char text[NAME_BYTES]) {
    const char *function = difference->function, *module = difference->module;
    if (module[0])
        snprintf(text, NAME_BYTES, "%.200s%s%.60s+0x%" PRIx64, function, function[0] ? ", " : "",
                 module, difference->module_offset);
    else
        snprintf(text, NAME_BYTES, "0x%" PRIx64, difference->pc);
}

static void print_caller(const char *who, uint64_t pc, const char *end, const char *row) {
    printf("  %-9s ", who);
    if (pc)
        printf("0x%" PRIx64, pc);
    else
        printf("no caller%s%s%s", end[0] ? " (" : "", end, end[0] ? ")" : "");
    printf("%s%s\n", row[0] ? ", by " : "", row);
}

static void print_difference(const Sonde__V1__UnwindDifference *difference) {
    char place[NAME_BYTES];
    format_place(difference, place);
    printf("\n%" PRIu64 " %s in the caller of %s\n", difference->stacks,
           difference->stacks == 1 ? "stack differs" : "stacks differ", place);
    print_caller("Sonde", difference->ours, difference->our_end, difference->rule);
    print_caller("libunwind", difference->other, "", difference->cfi);
}

static double percent(uint64_t part, uint64_t of) {
    return of ? 100.0 * (double)part / (double)of : 0;
}

static void print_check(const Sonde__V1__UnwindCheck *check) {
    if (check->stacks > 0) {
        printf("%" PRIu64 " stacks with %" PRIu64 " frames compared with libunwind's\n",
               check->stacks, check->frames);
        printf("equal: %.1f %% of stacks, %.1f %% of frames\n",
               percent(check->equal_stacks, check->stacks),
               percent(check->equal_frames, check->frames));
        printf("walked to the root: %.1f %% by Sonde, %.1f %% by libunwind\n",
               percent(check->reached_root, check->stacks),
               percent(check->other_reached_root, check->stacks));
    }
    cli_put_line(stdout, "note: ", check->note);
    for (size_t i = 0; i < check->n_differences; i++)
        print_difference(check->differences[i]);
}

struct answer {
    bool as_json, has_stacks;
    struct output *saved; /* NULL = nothing is saved */
    sonde_err err;        /* of saving */
    struct sonde_diag *diag;
};

static sonde_err save(const struct answer *answer, const Sonde__V1__SavedStack *stack) {
    if (!stack) {
        fputs(
            "no stack was saved: every walk reached its root, and none differs from libunwind's\n",
            stderr);
        return SONDE_OK;
    }
    size_t len = sonde__v1__saved_stack__get_packed_size(stack);
    uint8_t *packed = malloc(len + 1);
    if (!packed)
        return SONDE_OUT_OF_MEMORY;
    sonde__v1__saved_stack__pack(stack, packed);
    sonde_err err = output_write(answer->saved, packed, len, answer->diag);
    free(packed);
    if (!err)
        err = output_commit(answer->saved, answer->diag);
    if (!err)
        fprintf(stderr,
                "saved %s: %zu frames (%s). It holds %zu bytes of the process's memory: look for "
                "secrets before you pass it on\n",
                answer->saved->path, stack->n_pcs, stack->end, stack->stack.len);
    return err;
}

static bool on_answer(void *context, const ProtobufCMessage *message) {
    struct answer *answer = context;
    const Sonde__V1__UnwindCheck *check = (const void *)message;
    answer->has_stacks = check->stacks > 0;
    if (answer->saved && answer->has_stacks)
        answer->err = save(answer, check->saved_stack);
    if (answer->as_json) {
        Sonde__V1__UnwindCheck shown = *check;
        shown.saved_stack = NULL; /* it is in the file */
        json_print(&shown.base);
    } else {
        print_check(check);
    }
    return true;
}

int doctor_check_unwind(const struct verb *verb, const struct service_settings *settings,
                        const char *target, double seconds, bool as_json, const char *save_path) {
    Sonde__V1__CheckUnwindRequest request = SONDE__V1__CHECK_UNWIND_REQUEST__INIT;
    Sonde__V1__TargetSelector selector;
    struct sonde_diag diag = {0};
    struct output output;
    struct answer answer = {.as_json = as_json, .saved = save_path ? &output : NULL, .diag = &diag};
    struct service service = {0};
    service_select(target, &selector);
    request.target = &selector;
    request.duration_ms = (uint32_t)(seconds * MS_PER_S);
    request.save_stack = save_path != NULL;
    sonde_err err = SONDE_OK;
    if (save_path) {
        mode_t mask = umask(S_IRWXG | S_IRWXO); /* nobody else may read a process's memory */
        err = output_open(&output, save_path, &diag);
        umask(mask);
        if (err)
            return cli_fail(verb, err, &diag);
    }
    err = service_open_or_start(&service, settings, true, &diag);
    if (!err)
        err = service_stream(&service, &client_check_unwind, &request.base,
                             request.duration_ms + MARGIN_MS, on_answer, &answer, &diag);
    service_close(&service);
    err = err ? err : answer.err;
    if (save_path)
        output_finish(&output);
    if (err)
        return cli_fail(verb, err, &diag);
    return answer.has_stacks ? 0 : 1;
}
