/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guest/subject/subject.h"

#include <stdlib.h>

int subject_spins = 8000, subject_readings = 1;

__attribute__((constructor)) static void set_speed(void) {
    const char *spins = getenv("SUBJECT_SPINS"), *readings = getenv("SUBJECT_READINGS");
    subject_spins = spins ? atoi(spins) : subject_spins;
    subject_readings = readings ? atoi(readings) : subject_readings;
}

void subject_wait(void) {
    char byte;
    if (read(0, &byte, 1) != 1)
        exit(3); /* the test has ended */
}

void subject_say(const char *word, long long a, long long b) {
    printf("%s %lld %lld\n", word, a, b);
    fflush(stdout);
}
