/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/record/machine.h"

#include "api/base/array.h"
#include "api/profile/select/processes.h"
#include "service/engine/core/start_time.h"
#include "service/engine/host/process_info.h"
#include "service/engine/report/report.h"
#include "service/host/processes/cgroup.h"
#include "service/host/processes/process_text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000ll

/* A process that has a record of its own, or all processes that share one by name. */
struct known {
    struct engine_target target;
    uint64_t start_ticks; /* 0 = shared */
    char cgroup[CGROUP_BYTES];
    int64_t until_unix_ns; /* the end of its last record */
    uint64_t cpu_ns;       /* its CPU clock then; 0 = not read yet */
    bool is_over;          /* it has ended */
    uint32_t windows_over; /* since then */
    struct record_choice choice;
};

/* What is recorded in a window. */
struct entry {
    struct known *known;
    struct sonde_profile *profile;
};

struct machine {
    struct known **known; /* by pid; those that share a record, with pid 0, come first */
    size_t known_count, known_capacity, shared_count;
    _Atomic uint32_t count, left_out; /* machine_count and machine_left_out, for other threads */
    int64_t until_unix_ns;            /* the end of the last window; 0 = none */
};

/* The split of a window. */
struct split {
    struct machine *machine;
    const struct engine_metadata *window;
    const struct machine_skip *skip;
    const struct machine_receiver *receiver;
    struct entry *entries;
    size_t count, capacity;
};

struct machine *machine_create(void) {
    return calloc(1, sizeof(struct machine));
}

void machine_destroy(struct machine *machine) {
    if (!machine)
        return;
    for (size_t i = 0; i < machine->known_count; i++)
        free(machine->known[i]);
    free(machine->known);
    free(machine);
}

uint32_t machine_count(const struct machine *machine) {
    return atomic_load(&machine->count);
}

uint32_t machine_left_out(const struct machine *machine) {
    return atomic_load(&machine->left_out);
}

void machine_each(const struct machine *machine,
                  void (*on_process)(void *context, const struct engine_target *target,
                                     const char *cgroup),
                  void *context) {
    for (size_t i = 0; i < machine->known_count; i++)
        if (machine->known[i]->start_ticks)
            on_process(context, &machine->known[i]->target, machine->known[i]->cgroup);
}

/* ---- Which record a process has ---- */

/* The place of the first one with that pid, or where it would be. */
static size_t place_of(const struct machine *machine, pid_t pid) {
    size_t low = 0, high = machine->known_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (machine->known[middle]->target.pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct known *find_known(const struct machine *machine, pid_t pid, const char *name) {
    for (size_t i = place_of(machine, pid);
         i < machine->known_count && machine->known[i]->target.pid == pid; i++)
        if (strcmp(machine->known[i]->target.name, name) == 0)
            return machine->known[i];
    return NULL;
}

/* NULL when out of memory. */
static struct known *add_known(struct split *split, pid_t pid) {
    struct machine *machine = split->machine;
    struct known *known =
        array_room(&machine->known, &machine->known_capacity, machine->known_count, 1)
            ? calloc(1, sizeof *known)
            : NULL;
    if (!known)
        return NULL;
    known->until_unix_ns = split->window->start_unix_ns;
    size_t at = place_of(machine, pid);
    memmove(&machine->known[at + 1], &machine->known[at],
            (machine->known_count - at) * sizeof *machine->known);
    machine->known[at] = known;
    machine->known_count++;
    return known;
}

/* NULL: there is no room, or no memory. */
static struct known *add_own(struct split *split, const struct process_entry *process,
                             const char *name) {
    size_t own = split->machine->known_count - split->machine->shared_count;
    struct known *known = own < MACHINE_PROCESSES ? add_known(split, process->pid) : NULL;
    if (!known)
        return NULL;
    process_info_fill(process, &known->target);
    snprintf(known->target.name, sizeof known->target.name, "%s", name);
    known->start_ticks = process->start_ticks;
    cgroup_read(process->pid, known->cgroup);
    return known;
}

/* The record that processes of a name share. A name that was not seen for long is another instance,
 * so that its windows before are not missed in between. NULL when out of memory. */
static struct known *share(struct split *split, const char *name) {
    struct machine *machine = split->machine;
    char text[128];
    struct known *known = find_known(machine, 0, name[0] ? name : MACHINE_OTHER);
    if (!known && (!name[0] || machine->shared_count >= MACHINE_NAMES))
        known = find_known(machine, 0, name = MACHINE_OTHER);
    if (known || !(known = add_known(split, 0)))
        return known;
    known->target = (struct engine_target){.is_unattached = true,
                                           .start_unix_ns = split->window->start_unix_ns};
    snprintf(known->target.name, sizeof known->target.name, "%s", name);
    snprintf(text, sizeof text, "shared %s %lld", known->target.name,
             (long long)known->target.start_unix_ns);
    process_info_text_uuid(text, known->target.uuid);
    machine->shared_count++;
    return known;
}

static bool is_skipped(const struct machine_skip *skip, pid_t pid) {
    size_t low = 0, high = skip->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (skip->pids[middle] == pid)
            return true;
        if (skip->pids[middle] < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* A process that was started in this window and is called otherwise now has run another program, or
 * has got the pid of one that ended. An older one has changed its title. */
static bool may_be(const struct split *split, const struct process_entry *process,
                   const char *name) {
    return strcmp(process->name, name) == 0 ||
           start_time_unix_ns(process->start_ticks) < split->window->start_unix_ns;
}

/* Whose record has what was sampled of a pid under that name. NULL when out of memory. */
static struct known *identify(struct split *split, pid_t pid, const char *name) {
    struct process_entry process;
    bool is_alive = pid > 0 && process_read(pid, &process);
    struct known *known = pid > 0 ? find_known(split->machine, pid, name) : NULL;
    if (is_alive && process.is_kernel)
        return share(split, MACHINE_KERNEL);
    if (known) /* if it has ended, this is its last record */
        known->is_over = !is_alive || known->start_ticks != process.start_ticks;
    if (known && (!is_alive || !known->is_over))
        return known;
    known = is_alive && may_be(split, &process, name) ? add_own(split, &process, name) : NULL;
    return known ? known : share(split, name);
}

/* ---- The entries of a window ---- */

static struct entry *find_entry(struct split *split, const struct known *known) {
    for (size_t i = 0; i < split->count; i++)
        if (split->entries[i].known == known)
            return &split->entries[i];
    return NULL;
}

/* Takes the profile. */
static sonde_err add_entry(struct split *split, struct known *known,
                           struct sonde_profile *profile) {
    struct entry *entry = known ? find_entry(split, known) : NULL;
    if (known && !entry && array_room(&split->entries, &split->capacity, split->count, 1)) {
        split->entries[split->count++] = (struct entry){known, profile};
        return SONDE_OK;
    }
    sonde_err err =
        entry ? sonde_profile_merge(entry->profile, profile, 1, NULL) : SONDE_OUT_OF_MEMORY;
    sonde_profile_destroy(profile);
    return err;
}

static sonde_err on_part(void *context, const struct sonde_process_part *part) {
    struct split *split = context;
    pid_t pid = (pid_t)part->pid;
    if (!is_skipped(split->skip, pid))
        return add_entry(split, identify(split, pid, part->name), part->profile);
    sonde_profile_destroy(part->profile);
    return SONDE_OK;
}

/* ---- Delivery ---- */

static void choose_all(const struct split *split) {
    const struct machine_receiver *receiver = split->receiver;
    for (size_t i = 0; i < split->machine->known_count; i++) {
        struct known *known = split->machine->known[i];
        known->choice = receiver->choose ? receiver->choose(receiver->context, &known->target)
                                         : (struct record_choice){1, 1, false};
    }
}

static bool is_chosen(const struct known *known) {
    return known->choice.frequency_hz > 0;
}

static void hand_over(const struct split *split, const struct known *known,
                      const struct record *record) {
    if (is_chosen(known))
        split->receiver->on_record(split->receiver->context, record);
    else
        sonde_profile_destroy(record->profile);
}

/* The process's CPU clock. It is not known at the begin of the first window unless the process
 * began in it, nor at the end of the last one: what was sampled takes its place. Of processes that
 * share a record, nothing is known. */
static void read_clock(const struct split *split, struct known *known, struct record *record) {
    uint64_t sampled_ns = record->samples * record->period_ns;
    uint64_t now_ns = known->start_ticks && !known->is_over ? process_cpu_ns(known->target.pid) : 0;
    if (known->cpu_ns == 0 && now_ns == 0)
        return;
    if (now_ns <= known->cpu_ns)
        now_ns = known->cpu_ns + sampled_ns;
    bool is_new = known->target.start_unix_ns >= split->window->start_unix_ns;
    if (known->cpu_ns == 0 && !is_new)
        known->cpu_ns = now_ns > sampled_ns ? now_ns - sampled_ns : 0;
    record->cpu_from_ns = known->cpu_ns;
    record->cpu_until_ns = known->cpu_ns = now_ns;
}

static void deliver(const struct split *split, const struct entry *entry, bool is_largest) {
    const struct engine_metadata *window = split->window;
    struct record record = {
        .event = window->event,
        .target = &entry->known->target,
        .cgroup = entry->known->cgroup,
        .profile = entry->profile,
        .begin_unix_ns = window->start_unix_ns,
        .end_unix_ns = window->end_unix_ns,
        .period_ns = window->period_ns,
        .samples = (uint64_t)sonde_profile_total(entry->profile, 0),
        .dropped = is_largest ? window->dropped : 0,
        .truncated = is_largest ? window->truncated : 0,
        .clock = window->clock,
        .weight = entry->known->choice.weight,
        .is_outside = true,
    };
    if (window->event == SONDE_ON_CPU)
        read_clock(split, entry->known, &record);
    hand_over(split, entry->known, &record);
    entry->known->until_unix_ns = window->end_unix_ns;
}

/* Says that there were no samples from the end of the last record until then. */
static sonde_err deliver_idle(const struct split *split, struct known *known,
                              int64_t until_unix_ns) {
    while (known->until_unix_ns < until_unix_ns) {
        int64_t end = known->until_unix_ns + MACHINE_IDLE_S * NS_PER_S;
        struct record record = {.event = split->window->event,
                                .target = &known->target,
                                .cgroup = known->cgroup,
                                .profile = report_empty(split->window->event),
                                .begin_unix_ns = known->until_unix_ns,
                                .end_unix_ns = end < until_unix_ns ? end : until_unix_ns,
                                .period_ns = split->window->period_ns,
                                .clock = split->window->clock,
                                .weight = known->choice.weight,
                                .is_outside = true};
        if (!record.profile)
            return SONDE_OUT_OF_MEMORY;
        known->until_unix_ns = record.end_unix_ns;
        hand_over(split, known, &record);
    }
    return SONDE_OK;
}

/* The largest that is delivered. */
static size_t find_largest(const struct split *split) {
    size_t largest = SIZE_MAX;
    int64_t most = -1;
    for (size_t i = 0; i < split->count; i++) {
        int64_t total = sonde_profile_total(split->entries[i].profile, 0);
        if (!is_chosen(split->entries[i].known) || total <= most)
            continue;
        most = total;
        largest = i;
    }
    return largest;
}

static sonde_err deliver_all(const struct split *split) {
    size_t largest = find_largest(split);
    sonde_err err = SONDE_OK;
    for (size_t i = 0; i < split->count; i++) {
        struct entry *entry = &split->entries[i];
        sonde_err failed = deliver_idle(split, entry->known, split->window->start_unix_ns);
        err = err ? err : failed;
        deliver(split, entry, i == largest);
    }
    return err;
}

/* ---- What is known ---- */

/* Nobody looked between the windows, or the date was set between them. */
static void skip_gap(struct machine *machine, int64_t begin_unix_ns) {
    bool is_gap = llabs(begin_unix_ns - machine->until_unix_ns) > NS_PER_S;
    for (size_t i = 0; i < machine->known_count && is_gap; i++)
        machine->known[i]->until_unix_ns = begin_unix_ns;
}

static bool has_ended(const struct known *known) {
    struct process_entry process;
    return !process_read(known->target.pid, &process) || process.start_ticks != known->start_ticks;
}

/* Whether nothing more will be recorded of it. A process that waits goes on to be known, and the
 * last samples of one that has ended may arrive in the next window. */
static bool is_over(const struct split *split, const struct known *known, bool is_due) {
    if (known->start_ticks == 0)
        return is_due;
    return known->windows_over > 1 || (is_due && has_ended(known)) ||
           is_skipped(split->skip, known->target.pid);
}

/* Forgets those that are over, and says of those that wait that they do. */
static sonde_err sweep(struct split *split) {
    struct machine *machine = split->machine;
    int64_t end = split->window->end_unix_ns;
    sonde_err err = SONDE_OK;
    size_t kept = 0;
    uint32_t count = 0, left_out = 0;
    for (size_t i = 0; i < machine->known_count; i++) {
        struct known *known = machine->known[i];
        known->windows_over += known->is_over;
        bool is_due = end - known->until_unix_ns >= MACHINE_IDLE_S * NS_PER_S;
        if (is_over(split, known, is_due)) {
            machine->shared_count -= known->start_ticks == 0;
            free(known);
            continue;
        }
        machine->known[kept++] = known;
        count += known->start_ticks && !known->is_over && is_chosen(known);
        left_out += known->start_ticks && known->choice.is_left_out;
        if (is_due && !known->is_over && !err)
            err = deliver_idle(split, known, end);
    }
    machine->known_count = kept;
    atomic_store(&machine->count, count);
    atomic_store(&machine->left_out, left_out);
    return err;
}

sonde_err machine_split(struct machine *machine, const struct sonde_profile *profile,
                        const struct engine_metadata *window, const struct machine_skip *skip,
                        const struct machine_receiver *receiver) {
    struct split split = {.machine = machine, .window = window, .skip = skip, .receiver = receiver};
    skip_gap(machine, window->start_unix_ns);
    sonde_err err = sonde_profile_split_processes(profile, on_part, &split);
    choose_all(&split);
    sonde_err failed = deliver_all(&split);
    err = err ? err : failed;
    failed = sweep(&split);
    machine->until_unix_ns = window->end_unix_ns;
    free(split.entries);
    return err ? err : failed;
}
