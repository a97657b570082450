"""Generated code: protobuf-c for RPC messages, nanopb for guest frames."""

def protobuf_c_library(name, proto, imports = {}, **kwargs):
    """A library with the header X.pb-c.h, included as "<package>/X.pb-c.h".

    imports: the files that the proto imports, each with its library."""
    base = proto[:-len(".proto")]
    native.genrule(
        name = name + "_gen",
        srcs = [proto] + imports.keys(),
        outs = [base + ".pb-c.c", base + ".pb-c.h"],
        tools = ["@protobuf_c//:bin/protoc-c"],
        cmd = "protoc-c -I. -I%s --c_out=$(GENDIR) $(location %s)" % (native.package_name(), proto),
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb-c.c"],
        hdrs = [base + ".pb-c.h"],
        copts = ["-O2", "-w"],
        includes = ["."],
        linkstatic = True,
        deps = ["@protobuf_c"] + imports.values(),
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
