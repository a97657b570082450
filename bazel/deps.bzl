"""External repositories: Bazel's rules and C libraries, all from Debian packages."""

load("//bazel:system.bzl", "system_library")

_BAZEL_RULES = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/tools/platforms",
    "remote_coverage_tools": "bazel/shims/coverage_tools",
    "rules_cc": "bazel/shims/rules_cc",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

# name: (pkg-config module or "", libraries, headers, defines, deps, tools)
_LIBRARIES = {
    # Only headers: the worker that disassembles loads it (service/symbol/code/disassemble.c).
    "capstone_headers": ("capstone", [], ["capstone"], [], [], []),
    "curl": ("libcurl", [], ["curl"], [], [], []),
    "dw": ("libdw", ["dw"], ["elfutils", "dwarf.h"], [], ["elf"], []),
    "elf": ("libelf", ["elf"], ["libelf.h", "gelf.h", "nlist.h"], [], [], []),
    "grpc": ("grpc", ["grpc", "gpr"], ["grpc"], [], [], []),
    "h2o": ("libh2o-evloop", ["h2o-evloop"], ["h2o", "h2o.h"], ["H2O_USE_LIBUV=0"], ["openssl", "zlib"], []),
    "iberty": ("", [":libiberty.a"], ["libiberty"], [], [], []),
    "isal": ("libisal", ["isal"], ["isa-l"], [], [], []),
    "jansson": ("jansson", ["jansson"], ["jansson.h", "jansson_config.h"], [], [], []),
    "jemalloc": ("jemalloc", ["jemalloc"], ["jemalloc"], [], [], []),
    "lzma": ("liblzma", ["lzma"], ["lzma.h", "lzma"], [], [], []),
    "nanopb": ("", ["protobuf-nanopb"], ["pb.h", "pb_common.h", "pb_encode.h", "pb_decode.h"], [], [], []),
    "openssl": ("openssl", ["ssl", "crypto"], ["openssl"], [], [], []),
    "pcre2": ("libpcre2-8", ["pcre2-8"], ["pcre2.h"], ["PCRE2_CODE_UNIT_WIDTH=8"], [], []),
    "protobuf_c": ("libprotobuf-c", ["protobuf-c"], ["protobuf-c"], [], [], ["protoc-c", "protoc"]),
    "sdt": ("", [], ["sys/sdt.h", "sys/sdt-config.h"], [], [], []),
    "seccomp": ("libseccomp", ["seccomp"], ["seccomp.h", "seccomp-syscalls.h"], [], [], []),
    "sqlite3": ("sqlite3", ["sqlite3"], ["sqlite3.h"], [], [], []),
    "unwind": ("libunwind", ["unwind", "unwind-x86_64", "unwind-ptrace"], ["libunwind.h", "libunwind-common.h", "libunwind-dynamic.h", "libunwind-ptrace.h", "libunwind-x86_64.h", "libunwind-coredump.h"], [], [], []),
    "bpf": ("libbpf", ["bpf"], ["bpf"], [], ["elf", "zlib"], []),
    # Only headers: the process that needs it loads it (service/engine/unwind_check/other_library.h).
    "unwind_headers": ("libunwind", [], ["libunwind.h", "libunwind-common.h", "libunwind-dynamic.h", "libunwind-x86_64.h"], [], [], []),
    "zlib": ("zlib", ["z"], ["zlib.h", "zconf.h"], [], [], []),
    "zstd": ("libzstd", ["zstd"], ["zstd.h", "zstd_errors.h"], [], [], []),
}

def sonde_dependencies():
    """Declares all external repositories of the workspace."""
    for name, path in _BAZEL_RULES.items():
        native.local_repository(name = name, path = path)
    for name, (pkg, libs, headers, defines, deps, tools) in _LIBRARIES.items():
        system_library(
            name = name,
            pkg = pkg,
            libs = libs,
            headers = headers,
            defines = defines,
            deps = ["@" + dep for dep in deps],
            tools = tools,
        )
