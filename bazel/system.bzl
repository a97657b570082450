"""Makes a Debian -dev package a cc_library: it links the headers into an external repository and the libraries by name."""

def _root(ctx, machine):
    """Where the packages of a machine are: this one's are installed, the others are unpacked by bazel/install_deps.sh --arm64."""
    if not ctx.os.environ.get("SONDE_MACHINE"):
        return ""
    cache = ctx.os.environ.get("XDG_CACHE_HOME") or ctx.os.environ.get("HOME", "/root") + "/.cache"
    return cache + "/sonde/packages-" + machine

def _link_header(ctx, root, machine, header):
    """A folder may be in both places, each of which has some of its files."""
    found = [
        path
        for path in [ctx.path("%s%s/%s" % (root, folder, header)) for folder in ["/usr/include/%s-linux-gnu" % machine, "/usr/include"]]
        if path.exists
    ]
    if not found:
        fail("header %s of library %s is not installed: run bazel/install_deps.sh%s" % (header, ctx.name, " --arm64" if root else ""))
    if len(found) == 1 or not root:
        ctx.symlink(found[0], "include/" + header)
        return
    for path in [path for folder in found for path in folder.readdir()]:
        ctx.symlink(path, "include/%s/%s" % (header, path.basename))

def _link_tool(ctx, tool):
    path = ctx.which(tool)
    if path == None:
        fail("tool %s of library %s is not installed: run bazel/install_deps.sh" % (tool, ctx.name))
    ctx.symlink(path, "bin/" + tool)

def _system_library_impl(ctx):
    if ctx.attr.pkg:
        found = ctx.execute(["pkg-config", "--modversion", ctx.attr.pkg])
        if found.return_code != 0:
            fail("package %s is not installed: run bazel/install_deps.sh" % ctx.attr.pkg)
    machine = ctx.os.environ.get("SONDE_MACHINE") or ctx.execute(["uname", "-m"]).stdout.strip()
    root = _root(ctx, machine)
    folder = root + "/usr/lib/%s-linux-gnu" % machine
    paths = ["-L" + folder, "-Wl,-rpath-link," + folder] if root else []
    for header in ctx.attr.headers:
        _link_header(ctx, root, machine, header.replace("x86_64", machine))
    for tool in ctx.attr.tools:
        _link_tool(ctx, tool)
    ctx.file("BUILD.bazel", """
package(default_visibility = ["//visibility:public"])
exports_files(glob(["bin/**"]))
cc_library(
    name = "{name}",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    defines = {defines},
    linkopts = {linkopts},
    deps = {deps},
)
""".format(
        name = ctx.name,
        defines = repr(ctx.attr.defines),
        linkopts = repr(paths + ["-l" + lib.replace("x86_64", machine) for lib in ctx.attr.libs]),
        deps = repr([str(dep) for dep in ctx.attr.deps]),
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    environ = ["SONDE_MACHINE"],
    attrs = {
        "defines": attr.string_list(),
        "deps": attr.label_list(),
        "headers": attr.string_list(),
        "libs": attr.string_list(),
        "pkg": attr.string(),
        "tools": attr.string_list(),
    },
)
