/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/discovery/merge.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct merge {
    struct discovered_hosts *list;
    struct hash_index by_address, by_name;
};

static uint32_t hash_of(const struct hash_index *index, const char *text) {
    return hash_index_data(index, text, strlen(text));
}

static bool has_address(const struct merge *merge, const char *address) {
    struct hash_probe probe = hash_probe(hash_of(&merge->by_address, address));
    uint32_t number;
    while ((number = hash_index_next(&merge->by_address, &probe)) != HASH_INDEX_NONE)
        if (strcmp(merge->list->hosts[number].address, address) == 0)
            return true;
    return false;
}

static bool has_name(const struct merge *merge, const char *name) {
    struct hash_probe probe = hash_probe(hash_of(&merge->by_name, name));
    uint32_t number;
    while ((number = hash_index_next(&merge->by_name, &probe)) != HASH_INDEX_NONE)
        if (strcmp(merge->list->hosts[number].name, name) == 0)
            return true;
    return false;
}

static bool add(struct merge *merge, struct discovered_host host) {
    uint32_t number = (uint32_t)merge->list->count;
    if (has_name(merge, host.name))
        host.name = host.address;
    merge->list->hosts[merge->list->count++] = host;
    return hash_index_add(&merge->by_address, hash_of(&merge->by_address, host.address), number) &&
           hash_index_add(&merge->by_name, hash_of(&merge->by_name, host.name), number);
}

static bool add_list(struct merge *merge, const struct host_list *list, size_t *left_out) {
    for (size_t i = 0; i < list->count; i++) {
        if (has_address(merge, list->hosts[i].address))
            continue;
        if (merge->list->count == DISCOVERY_MAX_HOSTS)
            ++*left_out;
        else if (!add(merge, list->hosts[i]))
            return false;
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    const struct discovered_host *one = a, *two = b;
    int order = strcmp(one->name, two->name);
    return order ? order : strcmp(one->address, two->address);
}

/* Texts end with their zero byte, and NULL is not "". */
static bool put(EVP_MD_CTX *digest, const char *text) {
    return EVP_DigestUpdate(digest, text ? "t" : "n", 1) &&
           (!text || EVP_DigestUpdate(digest, text, strlen(text) + 1));
}

static bool put_host(EVP_MD_CTX *digest, const struct discovered_host *host) {
    bool is_good = put(digest, host->name) && put(digest, host->address) &&
                   put(digest, host->tls_name) && put(digest, host->origin);
    for (size_t i = 0; i < host->label_count && is_good; i++)
        is_good = put(digest, host->labels[i].name) && put(digest, host->labels[i].value);
    return is_good && EVP_DigestUpdate(digest, "h", 1);
}

static bool make_digest(struct merged_hosts *merged) {
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    bool is_good = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
    for (size_t i = 0; i < merged->list.count && is_good; i++)
        is_good = put_host(digest, &merged->list.hosts[i]);
    is_good = is_good && EVP_DigestFinal_ex(digest, merged->digest, NULL);
    EVP_MD_CTX_free(digest);
    return is_good;
}

sonde_err merge_hosts(struct host_list *const *lists, size_t count, struct merged_hosts *merged,
                      size_t *left_out) {
    struct merge merge = {.list = &merged->list};
    size_t hosts = 0;
    *merged = (struct merged_hosts){0};
    hash_index_init(&merge.by_address);
    hash_index_init(&merge.by_name);
    for (size_t i = 0; i < count; i++)
        hosts += lists[i] ? lists[i]->count : 0;
    merged->list.hosts = calloc(hosts + 1, sizeof *merged->list.hosts);
    bool is_good = merged->list.hosts != NULL;
    for (size_t i = 0; i < count && is_good; i++) {
        left_out[i] = 0;
        is_good = !lists[i] || add_list(&merge, lists[i], &left_out[i]);
    }
    hash_index_finish(&merge.by_address);
    hash_index_finish(&merge.by_name);
    if (is_good && merged->list.count)
        qsort(merged->list.hosts, merged->list.count, sizeof *merged->list.hosts, by_name);
    if (is_good && make_digest(merged))
        return SONDE_OK;
    merged_hosts_finish(merged);
    return SONDE_OUT_OF_MEMORY;
}

void merged_hosts_finish(struct merged_hosts *merged) {
    free(merged->list.hosts);
    *merged = (struct merged_hosts){0};
}
