/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the pprof reader share: the file, the profile that is being built, and the ids
 * of the one in the other. One thread. */
#ifndef SONDE_API_PROFILE_PPROF_PPROF_READER_H
#define SONDE_API_PROFILE_PPROF_PPROF_READER_H

#include "api/profile/pprof/pprof_ids.h"
#include "api/profile/pprof/wire.h"
#include "api/profile/profile.h"

struct pprof_reader {
    struct wire_reader whole;
    struct sonde_profile *profile;
    struct sonde_diag *diag;
    struct wire_reader *strings; /* of the file */
    uint32_t *string_ids;        /* of the profile; 0 = not added yet */
    size_t string_count;
    struct pprof_ids mappings, functions, locations;
    struct wire_reader types[SONDE_PROFILE_MAX_TYPES];
    size_t type_count;
    struct sonde_line *lines; /* of the location being read */
    size_t line_capacity;
    size_t cut_stacks, cut_labels; /* samples that were shortened */
};

/* Refuses the file: `what` is at that byte. */
SONDE_MUST_USE sonde_err pprof_reader_corrupt(struct pprof_reader *reader, const uint8_t *at,
                                              const char *what);
/* An error, if it is one, with the name of what was being read. */
SONDE_MUST_USE sonde_err pprof_reader_fail(struct pprof_reader *reader, sonde_err err,
                                           const char *what);
/* The profile's id of a string of the file. */
SONDE_MUST_USE sonde_err pprof_reader_string(struct pprof_reader *reader, uint64_t index,
                                             uint32_t *id);
/* Reads a message of varints; values[n] is the field with the number n, which is below `count`. */
SONDE_MUST_USE sonde_err pprof_reader_varints(struct pprof_reader *reader,
                                              struct wire_reader message, uint64_t *values,
                                              uint32_t count);
/* Adds a sample, after all locations. */
SONDE_MUST_USE sonde_err pprof_reader_sample(struct pprof_reader *reader,
                                             struct wire_reader message);
/* Adds comments about the samples that were shortened. */
SONDE_MUST_USE sonde_err pprof_reader_note_cuts(struct pprof_reader *reader);

#endif
