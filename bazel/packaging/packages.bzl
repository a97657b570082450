"""Packages of what //:install installs. The programs are built with optimization whatever the command line says, because the
packages' users run them, and because the same source then has the same packages, bit for bit."""

def _optimized_impl(settings, attr):
    return {"//command_line_option:compilation_mode": "opt"}

_optimized = transition(
    implementation = _optimized_impl,
    inputs = [],
    outputs = ["//command_line_option:compilation_mode"],
)

def _packages_impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    tree = ctx.actions.declare_file(ctx.label.name + ".tree")
    files = depset(ctx.files.installed + ctx.files.srcs).to_list()
    ctx.actions.write(tree, "".join(["%s\t%s\n" % (file.short_path, file.path) for file in files]))
    ctx.actions.run_shell(
        inputs = files + [tree, ctx.file.script],
        outputs = [out],
        command = "exec bash %s %s %s %s" % (ctx.file.script.path, tree.path, out.path, " ".join(ctx.attr.arguments)),
        mnemonic = "Package",
        progress_message = "Building packages in %s" % out.short_path,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

packages = rule(
    implementation = _packages_impl,
    attrs = {
        "installed": attr.label_list(allow_files = True, cfg = _optimized),
        "srcs": attr.label_list(allow_files = True),
        "script": attr.label(allow_single_file = True),
        "arguments": attr.string_list(),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    doc = "Runs script TREE OUT ARGUMENTS. TREE lists the files, each with its path in the workspace; OUT is a directory.",
)
