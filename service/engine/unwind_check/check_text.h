/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules and ends of a walk in words. Thread safety: any thread. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_TEXT_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_TEXT_H

#include "service/unwind/copy/copy.h"
#include "service/unwind/table/table.h"

/* Writes a rule of a table: "cfa=rsp+16 rbp=cfa-16". NULL: code without a table. */
void check_rule_text(const struct unwind_rule *rule, char *text, size_t size);
/* Why a walk ended; lives as long as the process. */
const char *check_end_text(enum unwind_copy_end end);

#endif
