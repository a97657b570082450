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

def bpf_library(name, src, hdrs, **kwargs):
    """A library with the header X.skel.h, included as "<package>/X.skel.h": libbpf's skeleton around the compiled program.

    The object runs on any kernel with BTF (CO-RE): the source declares what it needs of the kernel's structs. bpftool's linker
    drops the debug information, which holds the sandbox's paths.

    hdrs: the files that the source includes by their paths in the workspace, and those of service/machine, of which it includes one folder
    as service/machine/own."""
    base = src[:-len(".bpf.c")]
    native.genrule(
        name = name + "_gen",
        srcs = [src] + hdrs,
        outs = [base + ".skel.h"],
        cmd = select({
            "//bazel:arm64": "machine=aarch64; ",
            "//conditions:default": "machine=x86_64; ",
        }) + "headers=$(@D)/%s.headers; rm -rf $$headers; " % base + " && ".join([
            "mkdir -p $$headers/service/machine",
            "cp -rL service/machine/$$machine $$headers/service/machine/own" if hdrs else "true",
            "clang -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -ffreestanding " +
            "-I. -I$$headers -I/usr/include/$$(uname -m)-linux-gnu -c $(location %s) -o $(@D)/%s.full.o" % (src, base),
            "/usr/sbin/bpftool gen object $(@D)/%s.o $(@D)/%s.full.o" % (base, base),
            "/usr/sbin/bpftool gen skeleton $(@D)/%s.o name %s_bpf >$@" % (base, base),
        ]),
    )
    native.cc_library(
        name = name,
        hdrs = [base + ".skel.h"],
        linkstatic = True,
        deps = ["@bpf"],
        **kwargs
    )
