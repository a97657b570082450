/* SPDX-License-Identifier: Apache-2.0
 *
 * libunwind's functions, loaded at run time by the confined process alone. If sonded were linked
 * with it, its _Unwind_ functions would replace those of the C++ runtime that gRPC uses. One
 * thread. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_OTHER_LIBRARY_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_OTHER_LIBRARY_H

#include <libunwind.h>
#include <stdbool.h>

struct other_library {
    __typeof__(unw_create_addr_space) *create_space;
    __typeof__(unw_destroy_addr_space) *destroy_space;
    __typeof__(unw_set_caching_policy) *set_caching_policy;
    __typeof__(unw_flush_cache) *flush_cache;
    __typeof__(unw_init_remote) *init_remote;
    __typeof__(unw_step) *step;
    __typeof__(unw_get_reg) *get_reg;
    __typeof__(unw_get_save_loc) *get_save_loc;
    __typeof__(unw_strerror) *strerror;
    int (*search_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *info,
                        unw_proc_info_t *found, int need_info, void *context);
};

/* NULL if libunwind is not installed. */
const struct other_library *other_library(void);

#endif
