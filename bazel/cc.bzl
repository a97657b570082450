"""The macros every C target of ours goes through: warnings as errors, one standard, private by default."""

_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wvla",
    "-Wpointer-arith",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wwrite-strings",
    "-Wno-unknown-warning-option",  # clang, on the next line
    "-Wno-format-truncation",  # a cut snprintf is a choice here, never an overflow
    "-Wno-unused-parameter",
]

COPTS = _WARNINGS + ["-O2", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fvisibility=hidden"]

# A test's own functions need no prototypes, and its reference functions must not be inlined away.
_TEST_COPTS = [opt for opt in COPTS if opt not in ["-Wmissing-prototypes", "-Wwrite-strings", "-D_FORTIFY_SOURCE=2"]]

def sonde_cc_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = COPTS + copts, linkstatic = True, **kwargs)

def sonde_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = COPTS + copts, **kwargs)

def sonde_test_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = _TEST_COPTS + copts, linkstatic = True, testonly = True, **kwargs)

def sonde_test_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = _TEST_COPTS + copts, testonly = True, **kwargs)

def sonde_cc_test(name, deps = [], data = [], copts = [], size = "small", timeout = None, **kwargs):
    """A C test written with tests/unit/check.h. A small one may take five minutes, too: on a busy machine."""
    native.cc_test(
        name = name,
        size = size,
        timeout = timeout or ("moderate" if size == "small" else None),
        copts = _TEST_COPTS + copts,
        data = data + ["//tests:tsan.supp"],
        deps = deps + ["//tests/unit:check"],
        **kwargs
    )

def sonde_kernel_cc_test(name, tags = [], size = "medium", alone = False, **kwargs):
    """A test that needs the machine's real clocks and perf: outside the sandbox. `alone`: it counts CPU time, of which
    a busy machine has little, or fills the machine itself."""
    sonde_cc_test(name = name, tags = tags + ["local"] + (["exclusive"] if alone else []), size = size, **kwargs)

def sonde_sh_test(name, data = [], size = "medium", **kwargs):
    native.sh_test(name = name, size = size, data = data + ["//tests:tsan.supp"], **kwargs)

def sonde_fuzzer(name, srcs, deps, corpus = [], runs = 20000, max_len = 4096, **kwargs):
    """A libFuzzer target. `bazel test` replays a bounded number of runs with a driver of our own; with
    --config=fuzz the same source is a real coverage-guided fuzzer."""
    native.cc_test(
        name = name,
        size = "medium",
        srcs = srcs,
        copts = _TEST_COPTS,
        args = ["-runs=%d" % runs, "-max_len=%d" % max_len] + ["$(locations %s)" % c for c in corpus],
        data = corpus + ["//tests:tsan.supp"],
        linkopts = select({
            "//bazel:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//bazel:fuzzing": [],
            "//conditions:default": ["//tests/fuzz:driver"],
        }),
        **kwargs
    )
