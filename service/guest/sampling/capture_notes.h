/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened during a capture, in words for its profile. Choosing another clock does not forget
 * it. Threads: the control thread. Not signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_NOTES_H
#define SONDE_SERVICE_GUEST_SAMPLING_CAPTURE_NOTES_H

#include <stddef.h>

/* At the start of a capture. */
void capture_notes_clear(void);
/* Each text once. Beyond 192 bytes the rest is cut off. */
void capture_notes_add(const char *text);
/* Appends them to a note, with "; " in between. */
void capture_notes_put(char *note, size_t size);

#endif
