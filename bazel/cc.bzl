"""Macros for all of Sonde's C targets: they turn warnings into errors, set one C dialect and hide symbols by default."""

load("//bazel:load.bzl", "THIRDS")

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
    "-Wno-unknown-warning-option",  # clang does not know the next one
    "-Wno-format-truncation",  # snprintf may truncate, and does so on purpose
    "-Wno-unused-parameter",
]

_COPTS = _WARNINGS + ["-O2", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]

# tests/packaging/hardening_test.sh checks what _FORTIFY_SOURCE and -fcf-protection leave in the programs.
COPTS = _COPTS + select({
    "//bazel:arm64": ["-mbranch-protection=standard"],
    "//conditions:default": ["-fcf-protection=full"],
}) + ["-fvisibility=hidden"]

# Tests may define functions without prototypes. _FORTIFY_SOURCE would replace calls of libc functions that they check, and endbr64 moves
# the code whose addresses benchmarks walk.
_TEST_COPTS = [opt for opt in _COPTS if opt not in ["-Wmissing-prototypes", "-Wwrite-strings", "-D_FORTIFY_SOURCE=3"]] + ["-fvisibility=hidden"]

def sonde_cc_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = COPTS + copts, linkstatic = True, **kwargs)

MACHINES = ["aarch64", "x86_64"]

def sonde_machine_library(name, hdrs, machine_deps = [], deps = [], strip_include_prefix = None, **kwargs):
    """A library NAME_MACHINE for each machine, from the same sources; NAME is the one of the machine that is built for. Only tests use those
    of another. {machine} in headers and strip_include_prefix is its name, and of machine_deps each library takes those of its machine."""
    for machine in MACHINES:
        sonde_cc_library(
            name = "%s_%s" % (name, machine),
            hdrs = [header.replace("{machine}", machine) for header in hdrs],
            strip_include_prefix = strip_include_prefix.replace("{machine}", machine) if strip_include_prefix else None,
            deps = ["%s_%s" % (dep, machine) for dep in machine_deps] + deps,
            **kwargs
        )
    native.alias(
        name = name,
        actual = select({
            "//bazel:arm64": name + "_aarch64",
            "//conditions:default": name + "_x86_64",
        }),
    )

def sonde_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = COPTS + copts, **kwargs)

def sonde_test_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = _TEST_COPTS + copts, linkstatic = True, testonly = True, **kwargs)

def sonde_test_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = _TEST_COPTS + copts, testonly = True, **kwargs)

def _with_load(name, tags):
    """Adds how much of a processor Bazel's scheduler sets aside for the test, in thirds (.bazelrc: --local_cpu_resources)."""
    return tags + ["cpu:%d" % THIRDS.get("//%s:%s" % (native.package_name(), name), 3)]

def sonde_cc_test(name, srcs = None, deps = [], data = [], copts = [], size = "small", timeout = None, tags = [], **kwargs):
    """A C test written with tests/unit/check.h, by default NAME.c. Small tests have a timeout of five minutes, for busy machines."""
    native.cc_test(
        name = name,
        srcs = srcs or [name + ".c"],
        size = size,
        timeout = timeout or ("moderate" if size == "small" else None),
        copts = _TEST_COPTS + copts,
        data = data + ["//tests:tsan.supp"],
        deps = deps + ["//tests/unit:check"],
        tags = _with_load(name, tags),
        **kwargs
    )

def sonde_kernel_cc_test(name, tags = [], size = "medium", alone = False, **kwargs):
    """A test that runs outside the sandbox because it needs real clocks and perf. `alone` keeps other tests from running at the
    same time: set it for tests that measure CPU time or load the machine."""
    sonde_cc_test(name = name, tags = tags + ["local"] + (["exclusive"] if alone else []), size = size, **kwargs)

def sonde_sh_test(name, data = [], size = "medium", timeout = None, tags = [], **kwargs):
    native.sh_test(
        name = name,
        size = size,
        timeout = timeout or ("moderate" if size == "small" else None),
        data = data + ["//tests:tsan.supp"],
        tags = _with_load(name, tags),
        **kwargs
    )

def sonde_py_test(name, main = None, args = [], data = [], **kwargs):
    """A test written with tests/cli/check.py, by default NAME.py. An argument is a part of the names of the tests to run."""
    main = main or name + ".py"
    check = "//tests/cli:check.py"
    sonde_sh_test(
        name = name,
        srcs = ["//tests/cli:python_test.sh"],
        args = ["%s/%s" % (native.package_name(), main)] + args,
        data = [main, check] + [file for file in data if file != check],
        **kwargs
    )

def sonde_fuzzer(name, srcs, deps, corpus = [], runs = 20000, max_len = 4096, tags = [], **kwargs):
    """A libFuzzer target. `bazel test` runs it a bounded number of times with //tests/fuzz:driver; --config=fuzz builds the same
    source as a coverage-guided fuzzer."""
    native.cc_test(
        name = name,
        size = "medium",
        srcs = srcs,
        copts = _TEST_COPTS,
        args = ["-runs=%d" % runs, "-max_len=%d" % max_len] + ["$(locations %s)" % c for c in corpus],
        data = corpus + ["//tests:tsan.supp"],
        tags = _with_load(name, tags),
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
