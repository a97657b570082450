/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the target that a selector means. Thread safety: any thread. find_target needs
 * targets_lock. */
#ifndef SONDE_SERVICE_ENGINE_FIND_TARGET_H
#define SONDE_SERVICE_ENGINE_FIND_TARGET_H

#include "service/engine/target.h"

/* `caller` is the user who asks: a name, or none, means that user's targets, if there are any,
 * because other users can start targets with any name. For root it means the targets of sonded's
 * own user.
 * *target is valid while the lock is held; retain it to use it longer. Errors as engine_find. */
SONDE_MUST_USE sonde_err find_target(struct engine *engine, const struct engine_selector *selector,
                                     uid_t caller, struct target **target, struct sonde_diag *diag);
/* The same for sonded's own user, with the target retained. Any thread; takes the lock. */
SONDE_MUST_USE sonde_err find_target_retained(struct engine *engine,
                                              const struct engine_selector *selector,
                                              struct target **target, struct sonde_diag *diag);

#endif
