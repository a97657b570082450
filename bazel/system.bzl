"""Makes a Debian -dev package a cc_library: it links the headers into an external repository and the libraries by name."""

_HEADER_DIRS = ["/usr/include/x86_64-linux-gnu", "/usr/include"]

def _link_header(ctx, header):
    for folder in _HEADER_DIRS:
        path = ctx.path(folder + "/" + header)
        if path.exists:
            ctx.symlink(path, "include/" + header)
            return
    fail("header %s of library %s is not installed: run bazel/install_deps.sh" % (header, ctx.name))

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
    for header in ctx.attr.headers:
        _link_header(ctx, header)
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
        linkopts = repr(["-l" + lib for lib in ctx.attr.libs]),
        deps = repr([str(dep) for dep in ctx.attr.deps]),
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "defines": attr.string_list(),
        "deps": attr.label_list(),
        "headers": attr.string_list(),
        "libs": attr.string_list(),
        "pkg": attr.string(),
        "tools": attr.string_list(),
    },
)
