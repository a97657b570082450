/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/heap/allocator_names.h"
#include "tests/unit/check.h"

static void check_all(const char *const *names, size_t count, bool expected) {
    for (size_t i = 0; i < count; i++)
        if (sonde_allocator_has_function(names[i], false) != expected)
            check_fail(__FILE__, __LINE__, "%s is %sthe allocator's", names[i],
                       expected ? "not " : "");
}

#define CHECK_ALL(names, expected) check_all(names, sizeof names / sizeof *names, expected)

TEST(functions_that_only_get_memory_are_the_allocators) {
    static const char *const names[] = {
        "malloc",
        "__libc_calloc",
        "__strdup",
        "je_malloc",
        "_rjem_realloc",
        "tc_malloc",
        "mi_zalloc_aligned",
        "operator new(unsigned long)",
        "operator new[](unsigned long, std::align_val_t)",
        "_Znwm",
        "std::allocator<int>::allocate(unsigned long)",
        "std::__new_allocator<std::pair<int const, char> >::allocate(unsigned long, void const*)",
        "std::pmr::polymorphic_allocator<std::byte>::allocate(unsigned long)",
        "__gnu_cxx::new_allocator<int>::allocate",
        "std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&, unsigned "
        "long)",
        "std::_Vector_base<int, std::allocator<int> >::_M_allocate(unsigned long)",
        "std::_Rb_tree<int, int, std::_Identity<int>, std::less<int>, std::allocator<int> "
        ">::_M_get_node()",
        "std::__detail::_Hashtable_alloc<std::allocator<int> >::_M_allocate_node<int>(int&&)",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
        ">::_M_create(unsigned long&, unsigned long)",
        "std::__1::allocator<int>::allocate(unsigned long)",
        "std::__1::__allocation_result<int*> "
        "std::__1::__allocate_at_least<std::__1::allocator<int> >(std::__1::allocator<int>&)",
        "alloc::alloc::alloc",
        "alloc::alloc::Global::alloc_impl",
        "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "__rust_alloc",
        "__rustc::__rust_alloc_zeroed",
        "__rdl_alloc",
        "alloc::raw_vec::RawVec<T,A>::reserve::do_reserve_and_handle",
        "<alloc::raw_vec::RawVec<u8>>::grow_one",
        "alloc::raw_vec::finish_grow::<alloc::alloc::Global>",
        "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
        "std::sys::pal::unix::alloc::<impl core::alloc::global::GlobalAlloc for "
        "std::alloc::System>::alloc",
        "hashbrown::raw::alloc::inner::do_alloc",
        "hashbrown::raw::RawTableInner::new_uninitialized",
    };
    CHECK_ALL(names, true);
}

TEST(functions_that_also_do_something_else_are_the_programs) {
    static const char *const names[] = {
        "",
        "main",
        "zmalloc",
        "xmalloc",
        "malloc_trim_thread",
        "malloced",
        "strdup_all",
        "my::malloc",
        "void serve<std::allocator<int> >(std::allocator<int>::allocate)",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*, int&&)",
        "std::make_shared<int>()",
        "std::allocator<int>::deallocate(int*, unsigned long)",
        "mine::allocator<int>::allocate(unsigned long)",
        "<alloc::vec::Vec<u8>>::with_capacity",
        "alloc::boxed::Box<T>::new",
        "hashbrown::map::HashMap<K,V,S,A>::insert",
        "allocator::allocate",
        "operator delete(void*)",
    };
    CHECK_ALL(names, false);
}

TEST(internal_functions_of_jemalloc_count_only_in_a_program_that_contains_it) {
    static const char *const names[] = {"prof_alloc_prep",
                                        "imalloc_body",
                                        "ialloc",
                                        "do_rallocx",
                                        "irallocx_prof",
                                        "do_realloc_nonnull_zero",
                                        "void* fallback_impl<false>(unsigned long)",
                                        "void* newImpl<true>(std::size_t)"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(sonde_allocator_has_function(names[i], true));
        CHECK(!sonde_allocator_has_function(names[i], false));
    }
}

TEST(a_library_of_an_allocator_is_known_by_its_file) {
    CHECK(sonde_allocator_is_library("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"));
    CHECK(sonde_allocator_is_library("libtcmalloc_minimal.so.4"));
    CHECK(sonde_allocator_is_library("/opt/libmimalloc.so (deleted)"));
    CHECK(!sonde_allocator_is_library("/usr/lib/libjemalloc/server"));
    CHECK(!sonde_allocator_is_library(""));
}
