/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/capture_notes.h"

#include "service/guest/process/append.h"

#include <string.h>

static char notes[192];

static void add(char *note, size_t size, const char *text) {
    append_text(note, size, *note ? "; " : "");
    append_text(note, size, text);
}

void capture_notes_clear(void) {
    notes[0] = 0;
}

void capture_notes_add(const char *text) {
    if (!strstr(notes, text))
        add(notes, sizeof notes, text);
}

void capture_notes_put(char *note, size_t size) {
    if (*notes)
        add(note, size, notes);
}
