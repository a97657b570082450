/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables for the mappings a guest names, compiled once per file and sealed. */
#ifndef SONDE_TESTS_UNIT_GUEST_FAKE_TABLES_H
#define SONDE_TESTS_UNIT_GUEST_FAKE_TABLES_H

#include "proto/sonde/v1/guest.pb.h"

/* A memfd to be closed, -1 when the mapping has no table (JIT code, no unwind information). */
int fake_table(const sonde_guest_v1_Mapping *mapping, uint64_t *bias, uint64_t *bytes);

#endif
