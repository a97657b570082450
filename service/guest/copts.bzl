"""Compiler options of all code that runs inside a target."""

# Thread-local variables are read without a call, which signal handlers and malloc need.
GUEST_COPTS = [
    "-fPIC",
    "-ftls-model=initial-exec",
]
