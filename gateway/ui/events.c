/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the table of events as a script of the page. */
#include "api/profile/event.h"

#include <stdio.h>

static void print_words(const struct sonde_measure *measure, const char *legend) {
    if (measure->type.type)
        printf("%s: '%s', ", measure->type.type, legend ? legend : measure->words);
}

static void print_event(const struct sonde_event *event) {
    printf("    { name: '%s', title: '%s', rateUnit: '%s', perRate: %u, ", event->name,
           event->title, event->rate_unit, event->is_state ? 0 : event->per_rate);
    if (event->mode)
        printf("mode: '%s', shows: '%s', ", event->mode, event->shows);
    printf("isRecorded: %s, words: { ", event->is_recorded ? "true" : "false");
    print_words(&event->amount, event->legend);
    print_words(&event->objects, NULL);
    puts("} },");
}

int main(void) {
    puts(
        "// Each event. perRate: what the sum of a second is divided by; 0 = the values are states."
        "\nexport const EVENTS = [");
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        print_event(&sonde_events[i]);
    puts("];\nexport const RECORDED = EVENTS.filter((event) => event.isRecorded);\n"
         "export const MODES = EVENTS.filter((event) => event.mode);");
    return 0;
}
