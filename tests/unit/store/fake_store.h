/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in memory that follows store.h word by word and takes no shortcut: what a real engine
 * answers, it must answer, too. Slow beyond some thousand rows. Thread safety: any thread. */
#ifndef SONDE_TESTS_UNIT_STORE_FAKE_STORE_H
#define SONDE_TESTS_UNIT_STORE_FAKE_STORE_H

#include "service/store/store.h"

/* Never NULL. store_close frees it. */
struct store *fake_store_create(void);
/* Makes the next operation fail with this code and the text "the fake store fails". */
void fake_store_fail_next(struct store *store, sonde_err code);
/* Forgets a stack or a frame, as if it had never been written. */
void fake_store_forget_stack(struct store *store, const char *service, uint64_t id);
void fake_store_forget_frame(struct store *store, uint64_t id);

#endif
