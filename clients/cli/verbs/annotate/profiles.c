/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/profiles.h"

#include "clients/cli/history.h"

static bool asks_history(const struct profiles_settings *settings) {
    return settings->from || settings->until || settings->base_from || settings->base_until ||
           settings->selector;
}

const char *profiles_contradiction(const struct profiles_settings *settings, const char *word) {
    bool of_history = asks_history(settings);
    if (of_history && word && source_is_file(word))
        return "--from, --until, --base-from, --base-until and --selector are for the history: "
               "name a service, not a file";
    if (settings->base && (settings->base_from || settings->base_until))
        return "--base and --base-from both name a base: leave one out";
    if (of_history && settings->source.capture.mode)
        return "--mode is for captures: pass --event for the history";
    return NULL;
}

/* ---- the history ---- */

struct query {
    const struct profiles_settings *settings;
    const char *service; /* "" = all */
    struct history_range now, base;
    bool has_base;
};

static sonde_err read_ranges(const struct profiles_settings *settings, struct query *query,
                             struct sonde_diag *diag) {
    int64_t time = history_now_ns();
    query->has_base = settings->base_from || settings->base_until;
    sonde_err err = history_read_range("from", settings->from, "until", settings->until, time,
                                       &query->now, diag);
    if (!err && query->has_base)
        err = history_read_range("base-from", settings->base_from, "base-until",
                                 settings->base_until, time, &query->base, diag);
    return err;
}

static sonde_err query_range(struct service *service, const struct query *query,
                             const struct history_range *range, struct sonde_profile **profile,
                             struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    struct capture_result result = {0};
    struct source_memory memory;
    history_select(&selection, query->service, query->settings->source.capture.event,
                   query->settings->selector, range);
    rendering.format = SONDE__V1__FORMAT__PPROF;
    request.selection = &selection;
    request.rendering = &rendering;
    sonde_err err = source_memory_open(&memory, diag);
    if (!err)
        err = history_receive(service, &client_query_profile, &request.base, range, &memory.output,
                              &result, diag);
    if (!err)
        err = source_read(memory.path, profile, diag);
    if (!err)
        capture_print_completeness(range == &query->base ? "base: " : "", &result.completeness);
    output_finish(&memory.output);
    return err;
}

static sonde_err read_history(const struct profiles_settings *settings, const char *word,
                              struct profiles *profiles, struct sonde_diag *diag) {
    struct query query = {.settings = settings, .service = word ? word : ""};
    struct service service = {0};
    sonde_err err = read_ranges(settings, &query, diag);
    if (err)
        return err;
    err = service_open(&service, &settings->source.service, diag);
    if (!err)
        err = query_range(&service, &query, &query.now, &profiles->now, diag);
    if (!err && query.has_base)
        err = query_range(&service, &query, &query.base, &profiles->base, diag);
    service_close(&service);
    return err;
}

/* ---- any ---- */

static sonde_err choose_type(const struct sonde_profile *profile, const char *name, size_t *type,
                             struct sonde_diag *diag) {
    *type =
        name ? sonde_profile_find_type(profile, name) : sonde_profile_info(profile)->default_type;
    if (*type == SONDE_PROFILE_NO_TYPE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the profile has no sample type \"%.80s\"",
                          name);
    if (*type >= sonde_profile_type_count(profile))
        *type = 0;
    return SONDE_OK;
}

static sonde_err read_target(const struct profiles_settings *settings, const char *word,
                             struct profiles *profiles, struct sonde_diag *diag) {
    struct capture_result result = {0};
    sonde_err err = source_capture(word, &settings->source, &profiles->now, &result, diag);
    profiles->pid = result.pid;
    return err;
}

sonde_err profiles_read(const struct profiles_settings *settings, const char *word,
                        struct profiles *profiles, struct sonde_diag *diag) {
    sonde_err err;
    *profiles = (struct profiles){0};
    if (asks_history(settings))
        err = read_history(settings, word, profiles, diag);
    else if (source_is_file(word))
        err = source_read(word, &profiles->now, diag);
    else
        err = read_target(settings, word, profiles, diag);
    if (!err && settings->base)
        err = source_read(settings->base, &profiles->base, diag);
    if (!err)
        err = choose_type(profiles->now, settings->source.type, &profiles->now_type, diag);
    if (!err && profiles->base)
        err = choose_type(profiles->base, settings->source.type, &profiles->base_type, diag);
    return err;
}

void profiles_finish(struct profiles *profiles) {
    sonde_profile_destroy(profiles->now);
    sonde_profile_destroy(profiles->base);
    *profiles = (struct profiles){0};
}
