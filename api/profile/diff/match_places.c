/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/match_places.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b) {
    const struct match_place *one = a, *other = b;
    if (one->mapping != other->mapping)
        return one->mapping < other->mapping ? -1 : 1;
    return (one->address > other->address) - (one->address < other->address);
}

/* Locations with one address tell nothing about each other: writers that do not know addresses give
 * all of them the same. */
static void forget_shared(struct match_places *places) {
    size_t kept = 0, end;
    for (size_t i = 0; i < places->count; i = end) {
        for (end = i + 1; end < places->count; end++)
            if (by_place(&places->items[i], &places->items[end]) != 0)
                break;
        if (end == i + 1)
            places->items[kept++] = places->items[i];
    }
    places->count = kept;
}

sonde_err match_places_init(struct match_places *places, const struct sonde_profile *profile) {
    size_t count = sonde_profile_location_count(profile);
    *places = (struct match_places){.items = calloc(count + 1, sizeof *places->items)};
    if (!places->items)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t id = 1; id <= count; id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        if (location->mapping && location->address)
            places->items[places->count++] =
                (struct match_place){location->address, location->mapping, id};
    }
    if (places->count > 1)
        qsort(places->items, places->count, sizeof *places->items, by_place);
    forget_shared(places);
    return SONDE_OK;
}

void match_places_finish(struct match_places *places) {
    free(places->items);
    *places = (struct match_places){0};
}

uint32_t match_places_find(const struct match_places *places, uint32_t mapping, uint64_t address) {
    struct match_place wanted = {address, mapping, 0};
    const struct match_place *found = NULL;
    if (places->count > 0)
        found = bsearch(&wanted, places->items, places->count, sizeof wanted, by_place);
    return found ? found->location : 0;
}
