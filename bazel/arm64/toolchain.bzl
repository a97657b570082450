"""Tells Bazel where Debian's package crossbuild-essential-arm64 has its programs."""

load("@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path")
load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")

_TRIPLE = "aarch64-linux-gnu"
_TOOLS = ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]
_COMPILES = [ACTION_NAMES.c_compile, ACTION_NAMES.cpp_compile, ACTION_NAMES.assemble, ACTION_NAMES.preprocess_assemble]
_LINKS = [ACTION_NAMES.cpp_link_executable, ACTION_NAMES.cpp_link_dynamic_library, ACTION_NAMES.cpp_link_nodeps_dynamic_library]

def _always(name, actions, flags):
    return feature(
        name = name,
        enabled = True,
        flag_sets = [flag_set(actions = actions, flag_groups = [flag_group(flags = flags)])],
    )

def _config_impl(ctx):
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = "arm64",
        host_system_name = "local",
        target_system_name = _TRIPLE,
        target_cpu = "aarch64",
        target_libc = "glibc",
        compiler = "gcc",
        abi_version = "unknown",
        abi_libc_version = "unknown",
        features = [
            feature(name = "supports_pic", enabled = True),
            _always("reproducible", _COMPILES, ["-fno-canonical-system-headers", "-no-canonical-prefixes"]),
            _always("link", _LINKS, ["-Wl,--no-as-needed", "-Wl,-z,relro,-z,now"]),
        ],
        cxx_builtin_include_directories = ["/usr/lib/gcc-cross/" + _TRIPLE, "/usr/%s/include" % _TRIPLE, "/usr/include"],
        tool_paths = [tool_path(name = tool, path = "/usr/bin/%s-%s" % (_TRIPLE, tool)) for tool in _TOOLS],
    )

arm64_toolchain_config = rule(
    implementation = _config_impl,
    provides = [CcToolchainConfigInfo],
)
