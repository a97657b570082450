"""Who may see whom. Arrows fall one way (ARCHITECTURE.md):

    clients/cli, gateway -> clients/c -> proto, api
    service -> service/rpc -> service/engine -> service/{guest's protocol, unwind, symbol} -> api

Every package takes its default_visibility from here, so that a new arrow is a change of this file."""

_TESTS = ["//tests:__subpackages__"]

# api and proto: what every side agrees on.
EVERYBODY = ["//visibility:public"]

# The ring layout and the walker are read by the guest and by sonded's engine.
GUEST = ["//service/guest:__subpackages__", "//service/engine:__subpackages__"] + _TESTS

UNWIND = ["//service/unwind:__subpackages__", "//service/engine:__subpackages__", "//service/guest:__subpackages__"] + _TESTS

# What only sonded reads of ELF files; api/elf is for everybody.
ELF = ["//service:__subpackages__"] + _TESTS

SYMBOL = ["//service/symbol:__subpackages__", "//service/engine:__subpackages__", "//service:__pkg__"] + _TESTS

ENGINE = ["//service/engine:__subpackages__", "//service/rpc:__subpackages__", "//service:__pkg__"] + _TESTS

RPC = ["//service/rpc:__subpackages__", "//service:__pkg__"] + _TESTS

C_CLIENT = ["//clients:__subpackages__", "//gateway:__subpackages__"] + _TESTS

CLIENTS = ["//clients:__subpackages__"] + _TESTS

GATEWAY = ["//gateway:__subpackages__"] + _TESTS

# What ends up in somebody's prefix: the four binaries, the guest, headers, pages.
INSTALLED = ["//:__pkg__", "//bazel:__subpackages__"] + _TESTS
