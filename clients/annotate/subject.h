/* SPDX-License-Identifier: Apache-2.0
 *
 * The function of a profile that `sonde annotate` and agents' tools show: its locations and the
 * file with its code. Thread safety: any thread. */
#ifndef SONDE_CLIENTS_ANNOTATE_SUBJECT_H
#define SONDE_CLIENTS_ANNOTATE_SUBJECT_H

#include "api/profile/profile.h"

#define SUBJECT_MAX_GROUPS 1024u /* functions that a name may mean, by name and file */

/* What the user calls the function: NAME, NAME@FILE (a base name or the start of a build-id) or
 * NAME@0xSTART. */
struct subject_name {
    const char *word;
    char name[4096];
    const char *file; /* in word; NULL = any */
    uint64_t start;   /* ELF virtual address; 0 = any */
};

struct subject {
    const struct sonde_profile *profile;
    size_t type;
    const char *name;            /* the profile's; of the function that contains the code */
    const char *path, *build_id; /* of the file; "" = unknown */
    uint32_t *address_of;        /* per location id: index into locations, plus 1; 0 = elsewhere */
    uint32_t *locations;         /* ids */
    uint32_t count;
    int64_t inlined_elsewhere; /* of the samples in which it is inlined into other functions */
    bool is_container;         /* the word is only inlined, and this is what contains most of it */
};

/* The word itself, if functions of the profile are called that; else with "@..." cut off. */
void subject_read_name(const struct sonde_profile *profile, const char *word,
                       struct subject_name *name);
/* Fills the subject, which the caller finishes, also after an error. SONDE_NOT_FOUND: no function
 * is called that; nearest names are in the diag. SONDE_INVALID_ARGUMENT: several are; a table of
 * them is appended to *choices, without control characters, unless the name consists only of * or
 * more than SUBJECT_MAX_GROUPS are. */
SONDE_MUST_USE sonde_err subject_find(const struct sonde_profile *profile, size_t type,
                                      const struct subject_name *name, struct subject *subject,
                                      struct sonde_buf *choices, struct sonde_diag *diag);
void subject_finish(struct subject *subject);

/* The total of all samples, or 1 if that is not positive. */
double subject_whole(const struct subject *subject);

#endif
