/* SPDX-License-Identifier: Apache-2.0
 *
 * Building text in a fixed buffer, without stdio. The buffer holds a NUL-terminated string before
 * and after each call; what does not fit is cut. Any thread; signal-safe. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_APPEND_H
#define SONDE_SERVICE_GUEST_PROCESS_APPEND_H

#include <stddef.h>
#include <stdint.h>

void append_text(char *buffer, size_t size, const char *text);
void append_number(char *buffer, size_t size, uint64_t number);
/* "EACCES" and so on, or "error 95". */
void append_errno(char *buffer, size_t size, int error);

#endif
