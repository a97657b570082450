/* SPDX-License-Identifier: Apache-2.0
 *
 * Unwind tables for a guest's mappings, compiled once per file and sealed. */
#ifndef SONDE_TESTS_UNIT_GUEST_FAKE_TABLES_H
#define SONDE_TESTS_UNIT_GUEST_FAKE_TABLES_H

#include "proto/sonde/v1/guest.pb.h"

/* Returns a memfd, which the caller closes, or -1 when there is no table (JIT code, no unwind
 * information). */
int fake_table(const sonde_guest_v1_Mapping *mapping, uint64_t *bias, uint64_t *bytes);

/* Closes a table, and returns memory of the same size that has no seals. */
int fake_table_without_seals(int fd, uint64_t bytes);

#endif
