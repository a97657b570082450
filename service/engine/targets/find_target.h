/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the target that a selector means. Thread safety: any thread. find_target needs
 * targets_lock. */
#ifndef SONDE_SERVICE_ENGINE_TARGETS_FIND_TARGET_H
#define SONDE_SERVICE_ENGINE_TARGETS_FIND_TARGET_H

#include "service/engine/core/target.h"

/* `caller` is the user who asks: a name, or none, means that user's targets, if there are any,
 * because other users can start targets with any name. For root it means the targets of sonded's
 * own user. *target is valid while the lock is held; retain it to use it longer. Errors as
 * engine_find. */
SONDE_MUST_USE sonde_err find_target(struct engine *engine, const struct engine_selector *selector,
                                     uid_t caller, struct target **target, struct sonde_diag *diag);
/* Processes are listed once, though one that is also sampled from outside is two targets: adds the
 * captures of the other one. Any thread; takes targets_lock. */
void add_captures_from_outside(struct engine *engine, struct engine_target *list, size_t count);

/* choose_target.c: these retain the target for the caller. Any thread; they take targets_lock, and
 * read /proc if no attached process matches. `what` says in refusals what is asked for, for example
 * "heap profiles". */
/* For what only a guest can do. SONDE_NOT_AVAILABLE: the process runs without one. */
SONDE_MUST_USE sonde_err find_guest(struct engine *engine, const struct engine_selector *selector,
                                    const char *what, struct target **target,
                                    struct sonde_diag *diag);
/* One process, attached or not. */
SONDE_MUST_USE sonde_err find_process(struct engine *engine, const struct engine_selector *selector,
                                      const char *what, struct target **target,
                                      struct sonde_diag *diag);
/* For a CPU capture. *note says why its source was chosen; static text, "" = nothing to say. */
SONDE_MUST_USE sonde_err find_for_cpu(struct engine *engine, const struct engine_cpu_spec *spec,
                                      struct target **target, const char **note,
                                      struct sonde_diag *diag);
/* The target with the last CPU session of a process, of whatever source. */
SONDE_MUST_USE sonde_err find_cpu_session(struct engine *engine,
                                          const struct engine_selector *selector,
                                          struct target **target, struct sonde_diag *diag);
/* The same process with the other source, retained; NULL = there is none. */
struct target *find_twin(struct target *target);

#endif
