"""Compiler options of all code that runs inside a target."""

# Thread-local variables are read without a call, which signal handlers and malloc need.
GUEST_COPTS = [
    "-Os", # most of it runs on its own thread; signal and heap override this
    "-fPIC",
    "-ftls-model=initial-exec",
]
