/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses between the guest of a process and sampling it from outside. These are two targets, so
 * the samples of two sources never mix. */
#include "service/engine/targets/find_target.h"

#include "api/settings/install.h"
#include "service/engine/host/host.h"
#include "service/engine/targets/name_advice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEEDS_GUEST  "%s of process %d (%s) need Sonde inside it: "
#define START_ADVICE sizeof((struct sonde_diag *)0)->text

static bool is_given(const char *text) {
    return text && text[0];
}

static sonde_err find_attached(struct engine *engine, const struct engine_selector *selector,
                               struct target **target, struct sonde_diag *diag) {
    lock_take(&engine->targets_lock);
    sonde_err err = find_target(engine, selector, geteuid(), target, diag);
    if (!err)
        target_retain(*target);
    lock_drop(&engine->targets_lock);
    return err;
}

/* --- without a guest -------------------------------------------------------------------------- */

/* With targets_lock held. A uuid can also mean several processes. */
static struct target *host_by_uuid(struct target *list, const struct engine_selector *selector) {
    for (; list; list = list->next) {
        if (list->host && list->is_attached && list->host->event.id == SONDE_ON_CPU &&
            strcmp(list->info.uuid, selector->uuid) == 0 &&
            (!selector->owner || *selector->owner == list->uid))
            return list;
    }
    return NULL;
}

static struct target *find_by_uuid(struct engine *engine, const struct engine_selector *selector) {
    if (!is_given(selector->uuid) || is_given(selector->name) || selector->pid != 0)
        return NULL;
    lock_take(&engine->targets_lock);
    struct target *target = host_by_uuid(engine->targets, selector);
    if (!target)
        target = host_by_uuid(engine->newcomers, selector);
    if (target)
        target_retain(target);
    lock_drop(&engine->targets_lock);
    return target;
}

static sonde_err refuse_several(const char *what, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "%s can only be taken of one process: choose it by its pid or name", what);
}

/* A counted event has a target of its own. */
static sonde_err find_counted(struct engine *engine, const struct engine_cpu_spec *spec,
                              struct target **target, struct sonde_diag *diag) {
    struct host_plan plan;
    if (spec->source == ENGINE_GUEST)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "event %s: only sampled from outside; use source auto or host",
                          sonde_events[spec->event].name);
    if (spec->event == SONDE_GROWTH && spec->target.all)
        return refuse_several("growth", diag);
    sonde_err err = host_plan_make(engine, &spec->target, &plan, diag);
    plan.event = (struct host_event){spec->event, spec->every > 0};
    if (!err)
        err = host_target_get(engine, &plan, target, diag);
    host_plan_finish(&plan);
    return err;
}

static sonde_err find_host(struct engine *engine, const struct engine_selector *selector,
                           struct target **target, struct sonde_diag *diag) {
    struct host_plan plan;
    if ((*target = find_by_uuid(engine, selector)) != NULL)
        return SONDE_OK;
    sonde_err err = host_plan_make(engine, selector, &plan, diag);
    if (!err)
        err = host_target_get(engine, &plan, target, diag);
    host_plan_finish(&plan);
    return err;
}

/* --- one process ------------------------------------------------------------------------------ */

/* How a process gets the guest of this installation, in less than `room` bytes. */
static void explain_start(const struct engine *engine, size_t room, char text[START_ADVICE]) {
    char libsonde[PATH_MAX];
    bool is_found = install_find(INSTALLED_LIBSONDE, libsonde, NULL) == SONDE_OK;
    int len = snprintf(text, START_ADVICE,
                       "start it with sonde run -- COMMAND, or with LD_PRELOAD=%s SONDE_SOCKET=%s "
                       "in its environment",
                       is_found ? libsonde : "libsonde.so", engine->socket_path);
    if ((size_t)len >= room)
        snprintf(text, START_ADVICE, "start it with sonde run -- COMMAND");
}

/* advice: why the process cannot have one; "" = it can. */
static sonde_err needs_guest(const struct engine *engine, const struct process_entry *process,
                             const char *what, const char *advice, const char *hint,
                             struct sonde_diag *diag) {
    char start[START_ADVICE];
    int rest = snprintf(NULL, 0, NEEDS_GUEST "%s", what, (int)process->pid, process->name, hint);
    explain_start(engine, START_ADVICE - (size_t)rest, start);
    return sonde_fail(diag, SONDE_NOT_AVAILABLE, NEEDS_GUEST "%s%s", what, (int)process->pid,
                      process->name, advice[0] ? advice : start, hint);
}

/* is_memory: what grows can be seen from outside. */
static sonde_err refuse_without_guest(struct engine *engine, const struct engine_selector *selector,
                                      const char *what, bool is_memory, struct sonde_diag *diag) {
    struct host_plan plan;
    char advice[PROGRAM_ADVICE] = "", hint[80] = "";
    sonde_err err = host_plan_make(engine, selector, &plan, diag);
    if (!err && is_memory)
        snprintf(hint, sizeof hint, "; `sonde growth %d` shows which code makes it grow",
                 (int)plan.process.pid);
    if (!err)
        program_advice(static_kind(&plan.identity), plan.process.name, NULL, advice);
    if (!err)
        err = needs_guest(engine, &plan.process, what, advice, hint, diag);
    host_plan_finish(&plan);
    return err;
}

sonde_err find_guest(struct engine *engine, const struct engine_selector *selector,
                     const char *what, struct target **target, struct sonde_diag *diag) {
    *target = NULL;
    if (selector->all)
        return refuse_several(what, diag);
    sonde_err err = find_attached(engine, selector, target, diag);
    return err == SONDE_TARGET_NOT_FOUND ? refuse_without_guest(engine, selector, what, true, diag)
                                         : err;
}

sonde_err find_process(struct engine *engine, const struct engine_selector *selector,
                       const char *what, struct target **target, struct sonde_diag *diag) {
    *target = NULL;
    if (selector->all)
        return refuse_several(what, diag);
    sonde_err err = find_attached(engine, selector, target, diag);
    if (err == SONDE_TARGET_NOT_FOUND)
        err = find_host(engine, selector, target, diag);
    if (err || !(*target)->host || (*target)->host->members == HOST_ONE)
        return err;
    target_release(*target); /* found by its uuid */
    *target = NULL;
    return refuse_several(what, diag);
}

/* --- CPU captures ----------------------------------------------------------------------------- */

/* What AUTOMATIC means for an attached process: from outside, which costs it less; else *note says
 * why not. Only the BPF program knows how many waits there were. */
static bool prefers_host(struct engine *engine, const struct engine_cpu_spec *spec,
                         struct target *guest, const char **note) {
    *note = "";
    if (spec->counts_waits)
        return engine_has_right(engine, RIGHT_BPF);
    if (spec->is_recording || spec->event != SONDE_ON_CPU)
        return false;
    if (atomic_load_explicit(&guest->uses_labels, memory_order_relaxed)) {
        *note = "sampled from inside the process, because it uses labels";
        return false;
    }
    if (!engine_has_right(engine, RIGHT_PERF_ALL)) {
        *note = "sampled from inside the process; from outside, which costs it less, sonded needs "
                "CAP_PERFMON (sonde doctor)";
        return false;
    }
    return true;
}

/* Replaces the guest by the same process, sampled from outside. */
static sonde_err take_host_of(struct engine *engine, struct target **target,
                              struct sonde_diag *diag) {
    struct host_plan plan;
    struct target *guest = *target, *host = NULL;
    sonde_err err = host_plan_of_guest(engine, guest, &plan, diag);
    if (!err)
        err = host_target_get(engine, &plan, &host, diag);
    host_plan_finish(&plan);
    if (err)
        return err;
    target_release(guest);
    *target = host;
    return SONDE_OK;
}

static sonde_err choose_of_attached(struct engine *engine, const struct engine_cpu_spec *spec,
                                    enum engine_source source, struct target **target,
                                    const char **note, struct sonde_diag *diag) {
    if (source == ENGINE_GUEST)
        return SONDE_OK;
    if (source == ENGINE_AUTOMATIC && !spec->has_locks) {
        if (prefers_host(engine, spec, *target, note) && take_host_of(engine, target, NULL))
            *note = "";
        return SONDE_OK;
    }
    sonde_err err = take_host_of(engine, target, diag);
    if (err) {
        target_release(*target);
        *target = NULL;
    }
    return err;
}

sonde_err find_for_cpu(struct engine *engine, const struct engine_cpu_spec *spec,
                       struct target **target, const char **note, struct sonde_diag *diag) {
    enum engine_source source = spec->source ? spec->source : engine->source;
    *target = NULL;
    *note = "";
    if (sonde_event_is_counted(spec->event))
        return find_counted(engine, spec, target, diag);
    if (spec->has_locks && spec->source == ENGINE_GUEST)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "locks: only seen from outside; use source auto or host");
    if (spec->target.all && spec->source == ENGINE_GUEST)
        return refuse_several("profiles by the guest", diag);
    if (spec->target.all)
        return find_host(engine, &spec->target, target, diag);
    sonde_err err = find_attached(engine, &spec->target, target, diag);
    if (!err)
        return choose_of_attached(engine, spec, source, target, note, diag);
    if (err != SONDE_TARGET_NOT_FOUND)
        return err;
    if (spec->source == ENGINE_GUEST)
        return refuse_without_guest(engine, &spec->target, "profiles by the guest", false, diag);
    return find_host(engine, &spec->target, target, diag);
}

/* --- two targets of one process --------------------------------------------------------------- */

static struct target *twin_in(struct target *list, const struct target *target) {
    for (; list; list = list->next) {
        if (list != target && list->is_attached && !list->host != !target->host &&
            list->pid == target->pid && list->process.start_ticks == target->process.start_ticks &&
            (!list->host ||
             (list->host->members == HOST_ONE && list->host->event.id == SONDE_ON_CPU)))
            return list;
    }
    return NULL;
}

struct target *find_twin(struct target *target) {
    struct engine *engine = target->engine;
    if (target->host && target->host->members != HOST_ONE)
        return NULL;
    lock_take(&engine->targets_lock);
    struct target *twin = twin_in(engine->targets, target);
    if (!twin)
        twin = twin_in(engine->newcomers, target);
    if (twin)
        target_retain(twin);
    lock_drop(&engine->targets_lock);
    return twin;
}

static bool is_later(const struct session *session, const struct session *than) {
    if (session->is_running != than->is_running)
        return session->is_running;
    return session->info.start_unix_ns > than->info.start_unix_ns;
}

sonde_err find_cpu_session(struct engine *engine, const struct engine_selector *selector,
                           struct target **target, struct sonde_diag *diag) {
    const struct engine_cpu_spec spec = {.target = *selector, .source = ENGINE_AUTOMATIC};
    const char *note;
    sonde_err err = find_for_cpu(engine, &spec, target, &note, diag);
    struct target *twin = err ? NULL : find_twin(*target);
    if (!twin)
        return err;
    lock_take(&engine->session_lock);
    bool takes_twin = is_later(&twin->sessions[SESSION_CPU], &(*target)->sessions[SESSION_CPU]);
    lock_drop(&engine->session_lock);
    target_release(takes_twin ? *target : twin);
    if (takes_twin)
        *target = twin;
    return SONDE_OK;
}

/* --- what callers ask ------------------------------------------------------------------------- */

static sonde_err find_unattached(struct engine *engine, const struct engine_selector *selector,
                                 struct engine_target *info, struct sonde_diag *diag) {
    struct host_plan plan;
    struct target *target = find_by_uuid(engine, selector);
    sonde_err err = SONDE_OK;
    if (!target) {
        err = host_plan_make(engine, selector, &plan, diag);
        if (!err)
            host_describe(&plan, info);
    }
    lock_take(&engine->targets_lock);
    const struct target *known = target;
    if (!target && !err)
        known = host_target_find(engine, &plan);
    if (known)
        *info = known->info;
    lock_drop(&engine->targets_lock);
    if (!target)
        host_plan_finish(&plan);
    target_release(target);
    return err;
}

sonde_err engine_find(struct engine *engine, const struct engine_selector *selector,
                      struct engine_target *info, struct sonde_diag *diag) {
    struct target *target;
    if (selector->all)
        return find_unattached(engine, selector, info, diag);
    lock_take(&engine->targets_lock);
    sonde_err err = find_target(engine, selector, geteuid(), &target, diag);
    if (!err)
        *info = target->info;
    lock_drop(&engine->targets_lock);
    return err == SONDE_TARGET_NOT_FOUND ? find_unattached(engine, selector, info, diag) : err;
}

sonde_err engine_command_line(struct engine *engine, const struct engine_selector *selector,
                              struct sonde_buf *out, struct sonde_diag *diag) {
    struct target *target;
    sonde_err err = find_process(engine, selector, "the command line", &target, diag);
    if (err)
        return err;
    lock_take(&engine->targets_lock);
    if (target->command_len > 0)
        sonde_buf_append(out, target->command, target->command_len);
    lock_drop(&engine->targets_lock);
    target_release(target);
    return out->failed ? sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory") : SONDE_OK;
}
