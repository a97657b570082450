/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks requests before anything starts: bounds, defaults, and error messages that name the field,
 * the value and the bounds. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_REQUEST_PARAMS_H
#define SONDE_SERVICE_RPC_REQUEST_PARAMS_H

#include "api/draw/draw.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/engine.h"

#define RPC_DEFAULT_FREQUENCY_HZ 99
#define RPC_MAX_FREQUENCY_HZ     10000
#define RPC_MAX_DURATION_MS      3600000

/* Sets *value to `sent`, or to `fallback` if that is 0; low..high are allowed. The error message is
 * `name: "value" is not a whole number from ...`. */
SONDE_MUST_USE sonde_err rpc_number(const char *name, uint64_t sent, uint64_t fallback,
                                    uint64_t low, uint64_t high, uint32_t *value,
                                    struct sonde_diag *diag);
/* NULL selects nothing. The selector's strings point into the message. Refuses `all`. */
SONDE_MUST_USE sonde_err rpc_selector(const Sonde__V1__TargetSelector *message,
                                      struct engine_selector *selector, struct sonde_diag *diag);
/* The same for calls that may have several processes as one target. Only processes of the owner
 * count (rpc_call_owner); NULL = everybody's. */
SONDE_MUST_USE sonde_err rpc_selector_of_many(const Sonde__V1__TargetSelector *message,
                                              const uid_t *owner, struct engine_selector *selector,
                                              struct sonde_diag *diag);

struct rpc_rendering {
    enum sonde_format format;
    const struct sonde_format_info *info;
    struct sonde_draw_options options; /* the title points into the message */
};

/* For CPU profiles. NULL = the default format. */
SONDE_MUST_USE sonde_err rpc_rendering(const Sonde__V1__Rendering *message,
                                       struct rpc_rendering *rendering, struct sonde_diag *diag);

/* Refuses a format that is not offered for what the profile measures, and lists those that are. */
sonde_err rpc_refuse_format(const struct sonde_format_info *info, enum sonde_subject subject,
                            struct sonde_diag *diag);

/* For several processes as one target: pictures and text begin with the process, so only SPEEDSCOPE
 * may be split by thread. */
void rpc_rendering_of_many(struct rpc_rendering *rendering);

/* For a profile that has not been read yet: allows every rendered format. */
SONDE_MUST_USE sonde_err rpc_rendering_any(const Sonde__V1__Rendering *message,
                                           struct rpc_rendering *rendering,
                                           struct sonde_diag *diag);

/* For allocation windows. sample_type "" = the profile's default. */
SONDE_MUST_USE sonde_err rpc_rendering_allocs(const Sonde__V1__Rendering *message,
                                              const char *sample_type,
                                              struct rpc_rendering *rendering,
                                              struct sonde_diag *diag);
/* What a rendering asks for, besides the format; NULL changes nothing. */
SONDE_MUST_USE sonde_err rpc_rendering_options(const Sonde__V1__Rendering *message,
                                               struct sonde_draw_options *options,
                                               struct sonde_diag *diag);
/* The same with what depends on the profile: its default sample type and its colours. */
struct sonde_draw_options rpc_draw_options(const struct sonde_profile *profile,
                                           const struct sonde_draw_options *wanted);

/* Whole requests. The results borrow the message's strings, and the owner. */
SONDE_MUST_USE sonde_err rpc_capture_spec(const Sonde__V1__CaptureCpuRequest *request,
                                          const uid_t *owner, struct engine_cpu_spec *spec,
                                          struct rpc_rendering *rendering, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_stream_spec(const Sonde__V1__StreamCpuRequest *request,
                                         const uid_t *owner, struct engine_cpu_spec *spec,
                                         struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_session_spec(const Sonde__V1__StartCpuRequest *request,
                                          const uid_t *owner, struct engine_cpu_spec *spec,
                                          uint32_t *lease_ms, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_allocs_spec(const Sonde__V1__CaptureAllocsRequest *request,
                                         struct engine_allocs_spec *spec,
                                         struct rpc_rendering *rendering, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_allocs_session_spec(const Sonde__V1__StartAllocsRequest *request,
                                                 struct engine_allocs_spec *spec,
                                                 uint32_t *lease_ms, struct sonde_diag *diag);
SONDE_MUST_USE sonde_err rpc_symbolize_check(const Sonde__V1__SymbolizeRequest *request,
                                             struct engine_selector *selector,
                                             struct sonde_diag *diag);

#endif
