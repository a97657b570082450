/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of allocator frames. docs/guide.md lists its contents for users.
 *
 * A pattern matches a whole name, up to its parameters or template arguments. '*' stands for any
 * text. Only functions that do nothing but get memory are in the table: a function that also fills
 * the memory, such as std::vector<int>::push_back or zmalloc of redis, is the program's. */
#include "api/profile/heap/allocator_names.h"

#include <string.h>

const char *const sonde_allocator_exports[] = {"malloc",        "calloc",   "realloc",
                                               "free",          "memalign", "posix_memalign",
                                               "aligned_alloc", "valloc",   "pvalloc"};
const size_t sonde_allocator_export_count =
    sizeof sonde_allocator_exports / sizeof *sonde_allocator_exports;

static const char
    *const
        c_functions
            [] =
                {
                    "malloc",
                    "calloc",
                    "realloc",
                    "reallocarray",
                    "memalign",
                    "posix_memalign",
                    "aligned_alloc",
                    "valloc",
                    "pvalloc",
                    "__libc_malloc",
                    "__libc_calloc",
                    "__libc_realloc",
                    "__libc_memalign",
                    "__libc_valloc",
                    "__libc_pvalloc",
                    "__libc_reallocarray",
                    "strdup",
                    "strndup",
                    "wcsdup",
                    "__strdup",
                    "__strndup",
                    "__wcsdup",
                    "mallocx", /* jemalloc, also with the prefixes of redis and Rust */
                    "rallocx",
                    "xallocx",
                    "je_*",
                    "_rjem_*",
                    "tc_*alloc*", /* tcmalloc */
                    "tc_new*",
                    "tc_memalign",
                    "tcmalloc::*",
                    "mi_*alloc*", /* mimalloc */
                    "mi_new*",
                    "_mi_*",
};

static const char *const cpp_functions[] = {
    "operator new*",
    "_Znw*",
    "_Zna*",
    "std::*allocator<*>::allocate", /* std::allocator, std::__new_allocator and those of pmr */
    "std::allocator_traits<*>::allocate",
    "std::pmr::memory_resource::allocate",
    "__gnu_cxx::*allocator<*>::allocate",
    "__gnu_cxx::__alloc_traits<*>::allocate",
    "std::*>::_M_allocate", /* the memory of vector, deque, map, list, hash tables and string */
    "std::*>::_M_allocate_node",
    "std::*>::_M_allocate_map",
    "std::*>::_M_allocate_buckets",
    "std::*>::_M_create_storage",
    "std::*>::_M_get_node",
    "std::__cxx11::basic_string<*>::_M_create",
    "std::__cxx11::basic_string<*>::_S_allocate",
    "std::__allocated_ptr<*> std::__allocate_guarded",
    "std::__1::__libcpp_allocate", /* libc++ */
    "std::__1::__libcpp_operator_new",
    "*std::__1::__allocate_at_least",
};

static const char *const rust_functions[] = {
    "__rust_alloc*",
    "__rust_realloc",
    "__rustc::__r*",
    "__rdl_*",
    "__rg_*",
    "alloc::alloc::*",
    "<alloc::alloc::Global*",
    "alloc::raw_vec::*",
    "<alloc::raw_vec::*",
    "alloc::boxed::box_new_uninit",
    "hashbrown::raw::alloc::*",
    "hashbrown::raw::RawTableInner::new_uninitialized",
    "std::sys::alloc::*",
    "std::sys::pal::*::alloc::*",
    "<* as core::alloc::global::GlobalAlloc>::*",
    "<* as core::alloc::Allocator>::*",
    "*<impl core::alloc::global::GlobalAlloc for *>::*",
};

/* Internal functions of jemalloc whose names other programs may use. The last two are behind its
 * operator new. */
static const char *const internal_functions[] = {
    "prof_*",        "imalloc*",   "ialloc*",      "iralloc*",
    "irealloc*",     "do_rallocx", "do_realloc_*", "void* fallback_impl",
    "void* newImpl",
};

struct list {
    const char *const *patterns;
    size_t count;
    bool needs_built_in;
};

#define LIST(patterns) patterns, sizeof patterns / sizeof *patterns
static const struct list lists[] = {
    {LIST(c_functions), false},
    {LIST(cpp_functions), false},
    {LIST(rust_functions), false},
    {LIST(internal_functions), true},
};

/* The end of a name, or the start of its parameters or template arguments. */
static bool ends_name(const char *at) {
    return *at == 0 || *at == '(' || *at == '<' || strncmp(at, "::<", 3) == 0;
}

/* Finds the part of a pattern between two '*', in the text from `at` on. The last part must end the
 * name. NULL if there is none. */
static const char *find_part(const char *at, const char *part, size_t len, bool is_last) {
    if (is_last && len == 0)
        return at;
    for (; *at; at++)
        if (*at == *part && strncmp(at, part, len) == 0 && (!is_last || ends_name(at + len)))
            return at + len;
    return NULL;
}

static bool matches(const char *pattern, const char *name) {
    size_t len = strcspn(pattern, "*");
    if (strncmp(name, pattern, len) != 0)
        return false;
    name += len;
    pattern += len;
    if (*pattern == 0)
        return ends_name(name);
    while (*pattern == '*' && name) {
        pattern++;
        len = strcspn(pattern, "*");
        name = find_part(name, pattern, len, pattern[len] == 0);
        pattern += len;
    }
    return name != NULL;
}

bool sonde_allocator_has_function(const char *name, bool built_in) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < lists[i].count && (built_in || !lists[i].needs_built_in); k++)
            if (matches(lists[i].patterns[k], name))
                return true;
    return false;
}

bool sonde_allocator_is_library(const char *path) {
    static const char *const names[] = {"libjemalloc", "libtcmalloc", "libmimalloc", "libsonde"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}
