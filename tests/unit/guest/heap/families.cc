// SPDX-License-Identifier: Apache-2.0
//
// Each operator new with its operator delete.
#include <cstddef>
#include <new>

#define EXPORT extern "C"

static const std::align_val_t aligned = std::align_val_t(64);

EXPORT const int cpp_families = 12;

EXPORT void *cpp_new(int family, size_t size) {
    switch (family) {
    case 0:
    case 1:
        return ::operator new(size);
    case 2:
        return ::operator new(size, std::nothrow);
    case 3:
    case 4:
        return ::operator new(size, aligned);
    case 5:
        return ::operator new(size, aligned, std::nothrow);
    case 6:
    case 7:
        return ::operator new[](size);
    case 8:
        return ::operator new[](size, std::nothrow);
    case 9:
    case 10:
        return ::operator new[](size, aligned);
    default:
        return ::operator new[](size, aligned, std::nothrow);
    }
}

EXPORT void cpp_delete(int family, void *block, size_t size) {
    switch (family) {
    case 0:
        return ::operator delete(block);
    case 1:
        return ::operator delete(block, size);
    case 2:
        return ::operator delete(block, std::nothrow);
    case 3:
        return ::operator delete(block, aligned);
    case 4:
        return ::operator delete(block, size, aligned);
    case 5:
        return ::operator delete(block, aligned, std::nothrow);
    case 6:
        return ::operator delete[](block);
    case 7:
        return ::operator delete[](block, size);
    case 8:
        return ::operator delete[](block, std::nothrow);
    case 9:
        return ::operator delete[](block, aligned);
    case 10:
        return ::operator delete[](block, size, aligned);
    default:
        return ::operator delete[](block, aligned, std::nothrow);
    }
}

/* Returns 1 if operator new throws for that size. */
EXPORT int cpp_throws(size_t size) {
    try {
        volatile char *block = static_cast<char *>(::operator new(size));
        ::operator delete(const_cast<char *>(block));
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}
