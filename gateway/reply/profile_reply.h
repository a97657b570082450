/* SPDX-License-Identifier: Apache-2.0
 *
 * A profile as the answer to a request: the format that the client gets, and the call whose
 * CaptureEvents become the body. The status and headers wait until the service announces the
 * result, so a failure before that is answered with a status and a sentence. A failure after that
 * cuts the connection. In the loop only. */
#ifndef SONDE_GATEWAY_REPLY_PROFILE_REPLY_H
#define SONDE_GATEWAY_REPLY_PROFILE_REPLY_H

#include "gateway/handlers.h"
#include "gateway/reply/relay.h"

/* A format and the headers that go with it. */
struct profile_format {
    int id;             /* sonde.v1.Format */
    bool raw;           /* pprof without gzip */
    bool split_threads; /* as in sonde.v1.Rendering */
    bool keep_allocator_frames, hide_idle;
    bool gzip_coded;         /* pprof whose gzip is announced as Content-Encoding */
    const char *media_type;  /* never NULL */
    const char *disposition; /* Content-Disposition; NULL = none */
    const char *policy;      /* Content-Security-Policy; NULL = the server's own */
};

/* Chooses the format: `output=` or the path's extension first, then, if the path negotiates, the
 * client's headers, then default_format. A file with an extension gets its name from the URL, and
 * .pb.gz is sent as it would be stored. `threads=` says whether threads are split,
 * `allocator_frames=` whether those frames are kept, `hide_idle=` whether idle threads are left
 * out. SONDE_INVALID_ARGUMENT if `output=` or the extension is not one that the path offers, if
 * they differ, or if `threads=` is neither "merged" nor "split". */
SONDE_MUST_USE sonde_err profile_format_choose(const struct request_context *context,
                                               const struct profile_setup *setup,
                                               int default_format, struct profile_format *format,
                                               struct sonde_diag *diag);
/* The same, but answers the request itself if `output=` is bad, and returns false then. */
bool profile_format_read(const struct request_context *context, const struct profile_setup *setup,
                         int default_format, struct profile_format *format);
/* Copies a text of the service as the value of a header. */
void profile_reply_copy_value(char *out, size_t size, const char *text);
/* What to ask of the service for this format. */
Sonde__V1__Rendering profile_format_rendering(const struct profile_format *format);

/* The state of a handler that answers with a profile, or its first member. */
struct profile_reply {
    struct relay relay;
    struct profile_format format;
    /* Answers if the call fails before its result; NULL = relay_refuse. */
    void (*refuse)(struct profile_reply *reply, sonde_err err, const struct sonde_diag *diag);
    /* Frees what the handler's state owns; may be NULL. */
    void (*finish)(struct profile_reply *reply);
    /* False: the result is not sent; the call is cancelled, and then refuse is called, which may
     * start another one. NULL = all results are sent. */
    bool (*is_wanted)(struct profile_reply *reply, const Sonde__V1__ResultStart *result);
    /* When the service announces its result, before the headers: may fill before and after. */
    void (*on_result)(struct profile_reply *reply, const Sonde__V1__ResultStart *result);
    struct sonde_buf before, after;  /* sent around the result */
    char completeness[320];          /* header sonde-completeness; "" = none */
    char silences[800];              /* header sonde-silences; "" = none */
    char clock[32], clock_note[256]; /* headers sonde-clock and sonde-clock-note; "" = none */
    bool started;                    /* the headers have been sent */
    uint64_t size, sent;             /* bytes announced, bytes received */
};

/* size is that of the zeroed state. Never NULL: the process ends when memory runs out. */
void *profile_reply_create(const struct request_context *context, size_t size,
                           const struct profile_format *format);
/* Starts a call that streams CaptureEvents and answers the request with them. */
void profile_reply_call(struct profile_reply *reply, const struct client_method *method,
                        const ProtobufCMessage *request, uint32_t deadline_ms);
/* Answers with the whole body. The relay's own events must have brought it. */
void profile_reply_answer(struct profile_reply *reply, struct sonde_slice body);
/* What HEAD gets: checks that the target is attached and answers without a body. */
void profile_reply_check_target(struct profile_reply *reply);
/* What HEAD gets on paths of history: checks that there is one. */
void profile_reply_check_history(struct profile_reply *reply);
/* profile_reply_check_target for HEAD, profile_reply_call otherwise. */
void profile_reply_start(struct profile_reply *reply, const struct request_context *context,
                         const struct client_method *method, const ProtobufCMessage *request,
                         uint32_t deadline_ms);

/* Time after the end of a capture in which its result must arrive. */
#define PROFILE_GRACE_MS 60000

#endif
