/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/suggest_target.h"

#include "api/text/nearest.h"
#include "api/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 2000

/* A process chooses its name, which must not control the terminal. */
static bool is_printable(const char *name) {
    return name[0] && sonde_utf8_is_clean(name, strlen(name));
}

/* `list` may be NULL. */
static const char *nearest(const Sonde__V1__ListTargetsResponse *list,
                           const struct found_services *found, const char *word) {
    size_t listed = list ? list->n_targets : 0, count = 0;
    const char **names = calloc(listed + found->count + 1, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < listed; i++)
        names[count++] = list->targets[i]->name;
    for (size_t i = 0; i < found->count; i++)
        names[count++] = found->items[i].nearest;
    for (size_t i = 0; i < count; i++)
        names[i] = is_printable(names[i]) ? names[i] : NULL;
    const char *name = sonde_nearest(word, names, count);
    free(names);
    return name;
}

void suggest_target(struct client *client, const struct found_services *found,
                    const Sonde__V1__TargetSelector *selector, struct sonde_diag *diag) {
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    request.include_unattached = true;
    if (!diag || !selector || !selector->name[0])
        return;
    if (client && client_unary(client, &client_list_targets, &request.base, TIMEOUT_MS, &answer,
                               NULL) != SONDE_OK)
        answer = NULL;
    const char *name = nearest((const void *)answer, found, selector->name);
    size_t len = strlen(diag->text);
    if (name && strcmp(name, selector->name) != 0)
        snprintf(diag->text + len, sizeof diag->text - len, "; did you mean %.63s?", name);
    if (answer)
        protobuf_c_message_free_unpacked(answer, NULL);
}
