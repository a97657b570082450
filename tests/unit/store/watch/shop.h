/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up service "shop" on some hosts, recorded in a store: main calls handle, which calls the
 * functions. A window is a slot long. */
#ifndef SONDE_TESTS_UNIT_STORE_WATCH_SHOP_H
#define SONDE_TESTS_UNIT_STORE_WATCH_SHOP_H

#include "service/store/store.h"

#define SHOP_FUNCTIONS 12
#define SHOP_HOSTS     8
#define SHOP_BEGIN     1700000100 /* begin of the first slot, Unix time */

struct shop {
    struct store *store;
    const char *version;                      /* label of all windows */
    const char *names[SHOP_FUNCTIONS];        /* a new name is a new function */
    size_t unnamed;                           /* whose name is not known; SIZE_MAX = none */
    double costs[SHOP_HOSTS][SHOP_FUNCTIONS]; /* CPU seconds per slot */
    int64_t slot;                             /* number of slots so far */
    uint64_t state;                           /* of the random numbers; the seed */
};

/* The store is borrowed. */
void shop_init(struct shop *shop, struct store *store, uint64_t seed);
/* On all hosts. */
void shop_multiply(struct shop *shop, size_t function, double factor);
void shop_pass(struct shop *shop, size_t slots);
/* When the slots so far can be looked at, Unix time. */
int64_t shop_now(const struct shop *shop);

#endif
