/* SPDX-License-Identifier: Apache-2.0
 *
 * All error codes. One table maps each code to its reason (a name that is sent as the trailing
 * metadata "sonde-reason"), gRPC status, HTTP status, exit code and default sentence.
 *
 * A function that can fail returns sonde_err. If a sentence helps, it also fills its optional last
 * argument, struct sonde_diag. The sentence says what to do next. It has no file paths and memory
 * addresses of the machine, except those that the user named. Thread safety: any thread. */
#ifndef SONDE_API_ERROR_H
#define SONDE_API_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#define SONDE_MUST_USE __attribute__((warn_unused_result))

typedef enum sonde_err {
    SONDE_OK = 0,
    SONDE_INVALID_ARGUMENT,  /* a value that is malformed or out of bounds */
    SONDE_TARGET_AMBIGUOUS,  /* the selector fits several targets, or is empty and there are none */
    SONDE_TARGET_CONFLICT,   /* the selector's parts fit different targets */
    SONDE_TARGET_NOT_FOUND,  /* no attached target fits the selector */
    SONDE_TARGET_GONE,       /* the target exited during the call */
    SONDE_NOT_FOUND,         /* any other object does not exist */
    SONDE_SESSION_BUSY,      /* a session of that kind is running; no side effects */
    SONDE_TOO_MANY_CAPTURES, /* the limit of a target */
    SONDE_NO_CLOCK,          /* no sampling clock works in the target */
    SONDE_NOT_ACTIVE,        /* heap profiling is off */
    SONDE_NOT_AVAILABLE,     /* the target or the machine lacks something; the text names it */
    SONDE_UNIMPLEMENTED,     /* unknown method */
    SONDE_UNAUTHENTICATED,   /* missing or unknown token */
    SONDE_PERMISSION_DENIED, /* the token or certificate does not allow this */
    SONDE_UNAVAILABLE,       /* the service cannot be reached */
    SONDE_DEADLINE_EXCEEDED,
    SONDE_CANCELLED,
    SONDE_OUT_OF_MEMORY,
    SONDE_TOO_LARGE, /* exceeds a documented limit */
    SONDE_CORRUPT,   /* malformed input */
    SONDE_IO,        /* a system call failed; os_error of the diag has its errno */
    SONDE_PROTOCOL,  /* the peer violated the protocol */
    SONDE_INTERNAL,  /* a bug in Sonde */
    SONDE_ERR_COUNT
} sonde_err;

/* Lives on the caller's stack; zeroed before the call. */
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
    int exit_code;        /* 0 success, 1 failed, 2 usage, 3 unreachable, 4 refused */
    const char *sentence; /* the default text */
};

/* Never NULL: returns the row of SONDE_INTERNAL for an unknown code. */
const struct sonde_error_info *sonde_error_info(sonde_err code);
/* The code of a received reason; SONDE_INTERNAL if it is unknown. */
sonde_err sonde_error_from_reason(const char *reason);
/* The closest code for a gRPC status without a reason. */
sonde_err sonde_error_from_grpc(int grpc_status);

/* Fills diag (may be NULL) and returns code. A text that is too long is cut. */
sonde_err sonde_fail(struct sonde_diag *diag, sonde_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with SONDE_IO and an errno, whose text is appended after ": ". */
sonde_err sonde_fail_os(struct sonde_diag *diag, int os_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The text of diag (may be NULL), or the code's default sentence if it has none. */
const char *sonde_diag_text(const struct sonde_diag *diag, sonde_err code);

#endif
