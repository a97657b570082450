/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of every process, from windows of one capture of the whole machine, which sees them from
 * outside. A window has a record for each process that was sampled in it:
 *
 *     alive at the window's end        its own
 *     ended, or runs another program   one of all such processes of a name, with pid 0
 *     a kernel thread                  one of all, "[kernel]"
 *     recorded by its guest            none: that has the same time
 *
 * A process that waits has no samples for a while. Its next record follows one without samples that
 * says so; such a record comes every MACHINE_IDLE_S at the latest. A gap between two windows is no
 * such wait: nobody looked. Thread safety: one thread at a time; machine_count from any. */
#ifndef SONDE_SERVICE_ENGINE_RECORD_MACHINE_H
#define SONDE_SERVICE_ENGINE_RECORD_MACHINE_H

#include "service/engine/record/record.h"

#define MACHINE_IDLE_S    600
#define MACHINE_PROCESSES 4096 /* that have a record of their own; others share one by name */
#define MACHINE_NAMES     1000 /* records by name at a time; further names are "(other)" */
#define MACHINE_KERNEL    "[kernel]"
#define MACHINE_OTHER     "(other)"

struct machine;

/* Pids in ascending order. */
struct machine_skip {
    const pid_t *pids;
    size_t count;
};

/* NULL when out of memory. */
struct machine *machine_create(void);
void machine_destroy(struct machine *machine); /* NULL is fine */
/* Who gets the records: as in struct record_options. All processes have one rate, so of a choice
 * only whether it is 0 counts, and the weight. */
struct machine_receiver {
    struct record_choice (*choose)(void *context, const struct engine_target *target);
    void (*on_record)(void *context, const struct record *record);
    void *context;
};

/* Calls on_record for each record of a window. The profile is borrowed. What the whole window lost
 * is said in its largest record. SONDE_OUT_OF_MEMORY: some are missing. */
SONDE_MUST_USE sonde_err machine_split(struct machine *machine, const struct sonde_profile *profile,
                                       const struct engine_metadata *window,
                                       const struct machine_skip *skip,
                                       const struct machine_receiver *receiver);
/* Calls back for each process that has a record of its own. Not while a window is split. */
void machine_each(const struct machine *machine,
                  void (*on_process)(void *context, const struct engine_target *target,
                                     const char *cgroup),
                  void *context);
/* Processes that have a record of their own, and those that would if they were drawn. */
uint32_t machine_count(const struct machine *machine);
uint32_t machine_left_out(const struct machine *machine);

#endif
