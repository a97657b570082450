/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/ids.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static void hash_text(EVP_MD_CTX *context, const char *text) {
    EVP_DigestUpdate(context, text, strlen(text) + 1);
}

static void hash_number(EVP_MD_CTX *context, uint64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    EVP_DigestUpdate(context, bytes, sizeof bytes);
}

static EVP_MD_CTX *begin(const char *kind) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    /* Both fail only if there is no memory for a few hundred bytes. */
    if (!context || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
        abort();
    hash_text(context, kind);
    return context;
}

static uint64_t end(EVP_MD_CTX *context) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    uint64_t id = 0;
    for (int i = 0; i < 8; i++)
        id = id << 8 | digest[i];
    return id;
}

uint64_t store_frame_id(const char *build_id, const char *module, uint64_t address,
                        const char *function) {
    EVP_MD_CTX *context = begin("frame");
    hash_text(context, build_id[0] ? build_id : module);
    hash_number(context, address);
    if (!build_id[0] && !module[0])
        hash_text(context, function);
    return end(context);
}

uint64_t store_stack_id(const char *service, const uint64_t *frames, size_t count) {
    EVP_MD_CTX *context = begin("stack");
    hash_text(context, service);
    for (size_t i = 0; i < count; i++)
        hash_number(context, frames[i]);
    return end(context);
}

uint64_t store_hash(const void *bytes, size_t len) {
    EVP_MD_CTX *context = begin("bytes");
    EVP_DigestUpdate(context, bytes, len);
    return end(context);
}
