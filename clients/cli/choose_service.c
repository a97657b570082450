/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests say themselves what they are about: most have a field `target`. Requests about saved
 * captures or the history have none or an empty one, and what one sonded saved no other has. */
#include "clients/cli/choose_service.h"

#include <inttypes.h>
#include <string.h>

const Sonde__V1__TargetSelector *choose_selector(const ProtobufCMessage *request) {
    static const Sonde__V1__TargetSelector none = SONDE__V1__TARGET_SELECTOR__INIT;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "target");
    if (!field || field->descriptor != &sonde__v1__target_selector__descriptor)
        return NULL;
    const Sonde__V1__TargetSelector *const *at =
        (const void *)((const char *)request + field->offset);
    return *at ? *at : &none;
}

static bool names_target(const Sonde__V1__TargetSelector *selector) {
    return selector && (selector->pid || selector->name[0] || selector->uuid[0]);
}

/* Every sonded of this user sees the same processes and the same machine. The machine's own comes
 * first, because it does not end with a command. */
static const struct found_service *any_own(const struct found_services *found) {
    const struct found_service *of_run = NULL;
    for (size_t i = found->count; i-- > 0;) {
        const struct found_service *one = &found->items[i];
        if (one->is_own && (!of_run || !one->is_of_run))
            of_run = one;
    }
    return of_run;
}

/* The only one with a target that is meant; this user's count first. *count = how many have one. */
static const struct found_service *only_match(const struct found_services *found, size_t *count) {
    const struct found_service *match = NULL;
    bool own = false;
    *count = 0;
    for (size_t i = 0; i < found->count; i++)
        own |= found->items[i].matches > 0 && found->items[i].is_own;
    for (size_t i = 0; i < found->count; i++) {
        if (found->items[i].matches == 0 || (own && !found->items[i].is_own))
            continue;
        match = &found->items[i];
        ++*count;
    }
    return *count == 1 ? match : NULL;
}

static const char *describe(const Sonde__V1__TargetSelector *selector, char text[96]) {
    if (selector->name[0])
        snprintf(text, 96, "called %.63s", selector->name);
    else if (selector->pid)
        snprintf(text, 96, "with pid %" PRId32, selector->pid);
    else
        snprintf(text, 96, "with uuid %.63s", selector->uuid);
    return text;
}

static sonde_err choose_for_target(const struct found_services *found,
                                   const Sonde__V1__TargetSelector *selector, bool may_start,
                                   const struct found_service **chosen, struct sonde_diag *diag) {
    size_t count;
    char text[96];
    *chosen = only_match(found, &count);
    if (*chosen)
        return SONDE_OK;
    if (count > 1) {
        services_print(found, stderr);
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "%zu of these services have a process %s; give its pid, or add the "
                          "--service of one",
                          count, describe(selector, text));
    }
    if (!may_start) {
        services_print(found, stderr);
        return sonde_fail(diag, SONDE_TARGET_NOT_FOUND,
                          "no process %s is attached to any of these services",
                          describe(selector, text));
    }
    /* It is sampled from outside. A `sonde run` is for its own command. */
    *chosen = any_own(found);
    if (*chosen && (*chosen)->is_of_run)
        *chosen = NULL;
    return SONDE_OK;
}

static sonde_err ask_user(const struct found_services *found, const char *what,
                          struct sonde_diag *diag) {
    services_print(found, stderr);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%zu sonded services are running; %s",
                      found->count, what);
}

/* Without a name, the only attached process of all is meant. */
static sonde_err choose_unnamed(const struct found_services *found,
                                const struct found_service **chosen, struct sonde_diag *diag) {
    size_t count;
    *chosen = only_match(found, &count);
    return *chosen ? SONDE_OK
                   : ask_user(found, "name a process, or add the --service of one", diag);
}

sonde_err choose_service(struct found_services *found, const struct service_question *question,
                         const struct found_service **chosen, struct sonde_diag *diag) {
    const Sonde__V1__TargetSelector *selector = choose_selector(question->request);
    bool any = question->method == &client_get_info || question->method == &client_list_targets ||
               (selector && selector->all && !names_target(selector));
    *chosen = NULL;
    if (any) {
        *chosen = any_own(found);
        if (*chosen || question->may_start)
            return SONDE_OK;
    }
    services_ask(found, selector, question->token);
    bool is_about_saved = !selector || question->method == &client_list_captures;
    if (names_target(selector))
        return choose_for_target(found, selector, question->may_start && !is_about_saved, chosen,
                                 diag);
    return is_about_saved ? ask_user(found, "add the --service of one", diag)
                          : choose_unnamed(found, chosen, diag);
}
