"""Generated code: protobuf-c for RPC messages, nanopb for guest frames, descriptor sets for reflection."""

def protobuf_c_library(name, proto, **kwargs):
    """A library with the header X.pb-c.h, included as "<package>/X.pb-c.h"."""
    base = proto[:-len(".proto")]
    native.genrule(
        name = name + "_gen",
        srcs = [proto],
        outs = [base + ".pb-c.c", base + ".pb-c.h"],
        tools = ["@protobuf_c//:bin/protoc-c"],
        cmd = "protoc-c -I. --c_out=$(GENDIR) $(location %s)" % proto,
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb-c.c"],
        hdrs = [base + ".pb-c.h"],
        copts = ["-O2", "-w"],
        linkstatic = True,
        deps = ["@protobuf_c"],
        **kwargs
    )

def nanopb_library(name, proto, options, **kwargs):
    """A library with the header X.pb.h, included as "<package>/X.pb.h". Its symbols are hidden, because the guest links it."""
    base = proto[:-len(".proto")]
    native.genrule(
        name = name + "_gen",
        srcs = [proto, options],
        outs = [base + ".pb.c", base + ".pb.h"],
        cmd = ("PYTHONDONTWRITEBYTECODE=1 /usr/bin/protoc --plugin=protoc-gen-nanopb=/usr/bin/protoc-gen-nanopb " +
               "-I. --nanopb_out=-f$(location %s):$(GENDIR) $(location %s)") % (options, proto),
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb.c"],
        hdrs = [base + ".pb.h"],
        copts = ["-O2", "-w", "-fPIC", "-fvisibility=hidden"],
        linkstatic = True,
        deps = ["@nanopb"],
        **kwargs
    )

def descriptor_set(name, proto, **kwargs):
    """`name`.desc contains the FileDescriptorSet of `proto` and its imports."""
    native.genrule(
        name = name,
        srcs = [proto],
        outs = [name + ".desc"],
        tools = ["@protobuf_c//:bin/protoc"],
        cmd = "protoc -I. --include_imports --descriptor_set_out=$@ $(location %s)" % proto,
        **kwargs
    )
