/* SPDX-License-Identifier: Apache-2.0
 *
 * No label has a longer name than its tag, so a translated name is padded with blanks. */
#include "gateway/families/history/tag_filter.h"

#include "api/bytes.h"
#include "gateway/request/query.h"

#include <string.h>
#include <strings.h>

/* A label that no recorder writes. */
#define NEVER_FILLED "none__"
#define LISTED_BYTES 90 /* of labels in an error */

static const struct tag {
    const char *name, *label; /* NULL = the same name */
} tags[] = {
    {"app_service", "service"},
    {"app_instance", "instance"},
    {"process_id", "pid"},
    {"host", "host"},
    {"host_hostname", "host"},
    {"chost", "host"},
    {"chost_hostname", "host"},
    {"pod_node", "host"},
    {"pod_node_hostname", "host"},
    {"agent", "host"},
    {"vtap", "host"},
    {"profile_event_type", "event"},
    {"service", NEVER_FILLED}, /* a Kubernetes service, not Sonde's label */
    {"pod", NULL},
    {"pod_ns", NULL},
    {"pod_cluster", NULL},
    {"pod_ingress", NULL},
    {"pod_service", NULL},
    {"pod_group_type", NULL},
    {"pod_group", NULL},
    {"pod_node_ip", NULL},
    {"region", NULL},
    {"az", NULL},
    {"vpc", NULL},
    {"router", NULL},
    {"dhcpgw", NULL},
    {"lb", NULL},
    {"lb_listener", NULL},
    {"natgw", NULL},
    {"redis", NULL},
    {"rds", NULL},
    {"auto_instance", NULL},
    {"auto_instance_type", NULL},
    {"auto_service", NULL},
    {"auto_service_type", NULL},
    {"gprocess", NULL},
    {"host_ip", NULL},
    {"chost_ip", NULL},
    {"biz_service.group", NULL},
    {"ip", NULL},
    {"is_ipv4", NULL},
    {"trace_id", NULL},
    {"span_name", NULL},
    {"profile_value_unit", NULL},
    {"profile_create_timestamp", NULL},
    {"profile_in_timestamp", NULL},
    {"profile_language_type", NULL},
    {"profile_id", NULL},
};

static bool is_word(const char *text, size_t len, const char *word) {
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static bool is_operator(const char *text, size_t len) {
    static const char *const words[] = {"AND", "OR", "NOT", "IN", "LIKE", "REGEXP"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == len && strncasecmp(text, words[i], len) == 0)
            return true;
    return false;
}

/* Custom tags: `k8s.label.app`. */
static bool is_custom(const char *text, size_t len) {
    static const char *const prefixes[] = {"k8s.label", "k8s.annotation", "k8s.env", "cloud.tag"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t prefix = strlen(prefixes[i]);
        if (len >= prefix && memcmp(text, prefixes[i], prefix) == 0 &&
            (len == prefix || text[prefix] == '.'))
            return true;
    }
    return false;
}

static const struct tag *find_tag(const char *text, size_t len) {
    static const struct tag custom = {"", NULL};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (is_word(text, len, tags[i].name))
            return &tags[i];
    return is_custom(text, len) ? &custom : NULL;
}

static size_t word_length(const char *text) {
    size_t len = 0;
    while ((text[len] >= 'a' && text[len] <= 'z') || (text[len] >= 'A' && text[len] <= 'Z') ||
           (text[len] >= '0' && text[len] <= '9') || text[len] == '_' || text[len] == '.')
        len++;
    return len;
}

/* The length of the quoted text at the front, with its quotes. A quote is doubled or escaped. */
static size_t quoted_length(const char *text) {
    size_t at = 1;
    for (; text[at]; at++) {
        if (text[at] == '\\' && text[at + 1])
            at++;
        else if (text[at] == text[0] && text[at + 1] == text[0])
            at++;
        else if (text[at] == text[0])
            return at + 1;
    }
    return at;
}

static bool is_label(const struct tag_labels *labels, const char *text, size_t len) {
    for (size_t i = 0; i < labels->count; i++)
        if (is_word(text, len, labels->names[i]))
            return true;
    return false;
}

/* "event, host, version", as many as fit; the rest is "...". */
static void list_labels(const struct tag_labels *labels, struct sonde_buf *list) {
    char quoted[QUERY_QUOTED_SIZE];
    for (size_t i = 0; i < labels->count; i++) {
        const char *name = query_quote(sonde_slice_of(labels->names[i]), quoted);
        bool fits = list->len + strlen(name) <= LISTED_BYTES;
        sonde_buf_printf(list, "%s%s", i ? ", " : "", fits ? name : "...");
        if (!fits)
            return;
    }
}

static sonde_err refuse_name(const char *filter, const char *name, size_t len,
                             const struct tag_labels *labels, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_buf list = {0};
    if (!labels)
        return sonde_fail(diag, SONDE_NOT_FOUND, "the labels of history are not known");
    list_labels(labels, &list);
    sonde_err err = sonde_fail(
        diag, SONDE_INVALID_ARGUMENT,
        "tag_filter: byte %zu: \"%.60s\" is neither a tag, such as app_instance, process_id, host, "
        "pod or `k8s.label.app`, nor a label of history: %s",
        (size_t)(name - filter), query_quote((struct sonde_slice){name, len}, quoted),
        list.len ? list.data : "it has none");
    sonde_buf_finish(&list);
    return err;
}

/* Writes the label over a name of `len` bytes; a closing back-quote moves to the label's end. */
static void replace(char *name, size_t len, const char *label, bool is_quoted) {
    size_t used = strlen(label);
    memcpy(name, label, used);
    memset(name + used, ' ', len - used);
    if (is_quoted) {
        name[len] = ' ';
        name[used] = '`';
    }
}

/* A name at `at`, with or without back-quotes; *len is that of all its bytes. */
static sonde_err translate_name(const char *filter, char *at, const struct tag_labels *labels,
                                size_t *len, struct sonde_diag *diag) {
    bool is_quoted = *at == '`';
    char *name = at + is_quoted;
    size_t name_len = is_quoted ? strcspn(name, "`") : word_length(name);
    *len = name_len + 2 * (size_t)is_quoted;
    if (is_quoted && !name[name_len]) {
        *len = name_len + 1; /* the service reports that the back-quote is missing */
        return SONDE_OK;
    }
    if (!is_quoted && is_operator(name, name_len))
        return SONDE_OK;
    const struct tag *tag = find_tag(name, name_len);
    if (!tag && !(labels && is_label(labels, name, name_len)))
        return refuse_name(filter, name, name_len, labels, diag);
    if (tag && tag->label)
        replace(name, name_len, tag->label, is_quoted);
    return SONDE_OK;
}

sonde_err tag_filter_translate(char *filter, const struct tag_labels *labels,
                               struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    char *at = filter + strspn(filter, " \t\r\n");
    if (*at == '{') /* the service's other grammar, which DeepFlow does not have */
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "tag_filter: byte %zu: expected the name of a tag",
                          (size_t)(at - filter));
    while (!err && *at) {
        size_t len = 1;
        if (*at == '\'' || *at == '"')
            len = quoted_length(at);
        else if (*at >= '0' && *at <= '9')
            len = word_length(at);
        else if (*at == '`' || word_length(at))
            err = translate_name(filter, at, labels, &len, diag);
        at += len;
    }
    return err;
}
