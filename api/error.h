/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way a call can fail, once: one table maps a code to its name (the machine-readable reason
 * that travels as the trailing metadata "sonde-reason"), its gRPC status, its HTTP status and the
 * exit code of `sonde`.
 *
 * A function that can fail returns sonde_err and, where a sentence helps, fills the optional last
 * argument struct sonde_diag. The sentence says what to do next and carries no file path and no
 * memory address of the machine unless the user named it. Thread and signal safety: any thread. */
#ifndef SONDE_API_ERROR_H
#define SONDE_API_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#define SONDE_MUST_USE __attribute__((warn_unused_result))

typedef enum sonde_err {
    SONDE_OK = 0,
    SONDE_INVALID_ARGUMENT,  /* a value of the wrong form or out of bounds */
    SONDE_TARGET_AMBIGUOUS,  /* nothing said and not exactly one target, or a name that fits several
                              */
    SONDE_TARGET_CONFLICT,   /* two ways of naming a target name different ones */
    SONDE_TARGET_NOT_FOUND,  /* no such target attached */
    SONDE_TARGET_GONE,       /* the target ended during the work */
    SONDE_NOT_FOUND,         /* some other thing that was named does not exist */
    SONDE_SESSION_BUSY,      /* a session of that kind runs already; no side effect */
    SONDE_TOO_MANY_CAPTURES, /* the limit of captures of a target */
    SONDE_NO_CLOCK,          /* no sampling clock can be armed in the target */
    SONDE_NOT_ACTIVE,        /* heap profiling is off */
    SONDE_NOT_AVAILABLE,     /* the target or machine lacks what it needs; the text names it */
    SONDE_UNIMPLEMENTED,     /* unknown method */
    SONDE_UNAUTHENTICATED,   /* token missing or wrong */
    SONDE_PERMISSION_DENIED, /* known, but not allowed */
    SONDE_UNAVAILABLE,       /* the service cannot be reached */
    SONDE_DEADLINE_EXCEEDED,
    SONDE_CANCELLED,
    SONDE_OUT_OF_MEMORY,
    SONDE_TOO_LARGE, /* over a written bound */
    SONDE_CORRUPT,   /* outside bytes that break their format */
    SONDE_IO,        /* the operating system said no; see the diag's errno */
    SONDE_PROTOCOL,  /* the peer broke the protocol */
    SONDE_INTERNAL,  /* a bug of ours */
    SONDE_ERR_COUNT
} sonde_err;

/* On the caller's stack; zeroed before the call. */
struct sonde_diag {
    sonde_err code;
    int os_error; /* errno, 0 = none */
    char text[320];
};

struct sonde_error_info {
    sonde_err code;
    const char *reason; /* "TARGET_NOT_FOUND" */
    int grpc_status;
    int http_status;
    int exit_code;        /* 0 done, 1 failed, 2 usage, 3 unreachable, 4 refused */
    const char *sentence; /* used when nobody gave a better one */
};

/* Never NULL: an unknown code gives the row of SONDE_INTERNAL. */
const struct sonde_error_info *sonde_error_info(sonde_err code);
/* The code of a reason text as it came over the wire, SONDE_INTERNAL when unknown. */
sonde_err sonde_error_from_reason(const char *reason);
/* The best code for a gRPC status that came without a reason. */
sonde_err sonde_error_from_grpc(int grpc_status);

/* Fills diag (may be NULL) and returns code, so that a failing function ends in one line. */
sonde_err sonde_fail(struct sonde_diag *diag, sonde_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with an errno, whose text is appended after ": ". */
sonde_err sonde_fail_os(struct sonde_diag *diag, int os_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* diag's text, or the table's sentence when there is none. */
const char *sonde_diag_text(const struct sonde_diag *diag, sonde_err code);

#endif
