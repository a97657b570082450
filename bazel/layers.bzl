"""Which layer may depend on which. Dependencies point one way (ARCHITECTURE.md):

    clients/cli, gateway -> clients/c, clients/annotate -> proto, api
    service -> service/rpc -> service/engine -> service/{guest's protocol, host, unwind, symbol} -> api
                                                service/host -> service/unwind
                           -> service/store -> api
            service/recording -> service/engine, service/store
            clients/collect -> clients/c, api; clients/collect/status -> gateway/{http, request}
            service/collect -> service/recording, service/engine; service/rpc -> service/collect
    service/export -> service/recording, service/http, service/rpc/outgoing
    service/watch -> service/store, service/export

Every package takes its default_visibility from here, so that a new dependency between layers is a change of this file."""

_TESTS = ["//tests:__subpackages__"]

# sonded and sonde-history, and their parts.
_PROGRAMS = ["//service:__pkg__", "//service/programs:__subpackages__"]

PROGRAMS = _PROGRAMS + _TESTS

# api and proto, which everything uses.
EVERYBODY = ["//visibility:public"]

# The guest's ring layout and walker, which sonded's engine uses, too.
GUEST = ["//service/guest:__subpackages__", "//service/engine:__subpackages__"] + _TESTS

# Sampling from outside. service/rpc reads the list of rights, service/recording the processes' CPU time.
HOST = ["//service/host:__subpackages__", "//service/recording:__subpackages__", "//service/export:__subpackages__", "//service/engine:__subpackages__", "//service/rpc:__subpackages__"] + _PROGRAMS + _TESTS

UNWIND = ["//service/unwind:__subpackages__", "//service/machine:__pkg__", "//service/engine:__subpackages__", "//service/host:__subpackages__", "//service/guest:__subpackages__"] + _TESTS

# The parts of ELF files that only sonded reads; api/elf is for everybody.
ELF = ["//service:__subpackages__"] + _TESTS

# What differs between the machines whose files Sonde reads.
MACHINE = ["//service:__subpackages__"] + _TESTS

# Targets' identities and rights.
PROCESS = ["//service:__subpackages__"] + _TESTS

SYMBOL = ["//service/symbol:__subpackages__", "//service/engine:__subpackages__"] + _PROGRAMS + _TESTS

# The folders of the engine. Other parts of Sonde depend on //service/engine:header and //service/engine only.
ENGINE_PARTS = ["//service/engine:__subpackages__"] + _TESTS

ENGINE = ["//service/engine:__subpackages__", "//service/collect:__subpackages__", "//service/function_times:__subpackages__", "//service/recording:__subpackages__", "//service/export:__subpackages__", "//service/rpc:__subpackages__"] + _PROGRAMS + _TESTS

# Sessions of Profiler.Collect.
COLLECT = ["//service/collect:__subpackages__", "//service/rpc:__subpackages__"] + _PROGRAMS + _TESTS

# History on disk, and the recorder's messages to it.
STORE = ["//service/store:__subpackages__", "//service/watch:__subpackages__", "//service/collect:__subpackages__", "//service/recording:__subpackages__", "//service/export:__subpackages__", "//service/rpc:__subpackages__"] + _PROGRAMS + _TESTS

# libcurl.
HTTP = ["//service/http:__subpackages__", "//service/store:__subpackages__", "//service/export:__subpackages__"] + _TESTS

# What sends recorded profiles to other systems.
EXPORT = ["//service/export:__subpackages__", "//service/watch:__pkg__"] + _PROGRAMS + _TESTS

# What looks for changes in history.
WATCH = ["//service/watch:__subpackages__"] + _PROGRAMS + _TESTS

# What ties the engine's recorder to a store.
RECORDING = ["//service/recording:__subpackages__", "//service/collect:__subpackages__", "//service/function_times:__subpackages__", "//service/export:__subpackages__", "//service/rpc:__subpackages__"] + _PROGRAMS + _TESTS

RPC = ["//service/rpc:__subpackages__", "//service/export:__subpackages__"] + _PROGRAMS + _TESTS

# The folders of service/rpc that nothing else needs.
RPC_PARTS = ["//service/rpc:__subpackages__"] + _TESTS

C_CLIENT = ["//clients:__subpackages__", "//gateway:__subpackages__"] + _TESTS

CLIENTS = ["//clients:__subpackages__"] + _TESTS

GATEWAY = ["//gateway:__subpackages__"] + _TESTS

# The HTTP server and the parsers of requests, which the status page of sonde-collect uses, too.
HTTP_SERVER = ["//gateway:__subpackages__", "//clients/collect/status:__pkg__"] + _TESTS

# What `bazel run //:install` copies: binaries, the guest, headers, man pages.
INSTALLED = ["//:__pkg__", "//bazel:__subpackages__"] + _TESTS
