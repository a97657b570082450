// SPDX-License-Identifier: Apache-2.0
// Inlined calls, a cold part, an anonymous namespace, a lambda, and a constructor with its variants.
namespace {
struct Hidden {
    int value;
    __attribute__((noinline)) int get(int x) {
        return x + value;
    }
};
inline int twice(int x) {
    return x * 2 + (x >> 3);
}
} // namespace

struct Base {
    explicit Base(int x);
    int field;
};
__attribute__((noinline)) Base::Base(int x) : field(x) {
}

extern "C" void stop(int) __attribute__((cold));
extern "C" int entry(int x);

extern "C" int entry(int x) {
    auto twist = [x](int y) __attribute__((noinline)) { return twice(y) ^ x; };
    if (__builtin_expect(x == 77, 0))
        stop(twice(x));
    Base base(x);
    return Hidden{x}.get(twist(base.field)) + twice(x + 1);
}
