/* SPDX-License-Identifier: Apache-2.0
 *
 * The "result" of DeepFlow's ProfileTracing: a JSON array of nodes, the root first.
 *
 * A node's id is the UUID, version 5, of its path in the namespace OID: the names from below the
 * root to the node, joined by ';'. The hash of the parent's path is kept and continued with the
 * node's name, so a deep tree costs no more than its names. */
#include "api/draw/formats/deepflow.h"
#include "api/draw/render.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define UUID_SIZE 16

struct writer {
    const struct draw_tree *tree;
    struct sonde_buf *out;
    EVP_MD_CTX *digest; /* for finishing a copy */
    /* By depth, of the current path. */
    EVP_MD_CTX *paths[DRAW_TREE_MAX_DEPTH + 1];
    unsigned char ids[DRAW_TREE_MAX_DEPTH + 1][UUID_SIZE];
    bool failed;
};

static const unsigned char namespace_oid[UUID_SIZE] = {
    0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8};

static bool start_path(struct writer *writer) {
    writer->digest = EVP_MD_CTX_new();
    writer->paths[0] = EVP_MD_CTX_new();
    return writer->digest && writer->paths[0] &&
           EVP_DigestInit_ex(writer->paths[0], EVP_sha1(), NULL) == 1 &&
           EVP_DigestUpdate(writer->paths[0], namespace_oid, sizeof namespace_oid) == 1;
}

/* Continues the parent's path with the name and stores the node's id. */
static bool hash_path(struct writer *writer, uint32_t depth, const char *name) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    if (!writer->paths[depth])
        writer->paths[depth] = EVP_MD_CTX_new();
    EVP_MD_CTX *path = writer->paths[depth];
    if (!path || EVP_MD_CTX_copy_ex(path, writer->paths[depth - 1]) != 1 ||
        (depth > 1 && EVP_DigestUpdate(path, ";", 1) != 1) ||
        EVP_DigestUpdate(path, name, strlen(name)) != 1 ||
        EVP_MD_CTX_copy_ex(writer->digest, path) != 1 ||
        EVP_DigestFinal_ex(writer->digest, hash, NULL) != 1)
        return false;
    hash[6] = (unsigned char)((hash[6] & 0x0f) | 0x50); /* version 5 */
    hash[8] = (unsigned char)((hash[8] & 0x3f) | 0x80); /* the RFC's variant */
    memcpy(writer->ids[depth], hash, UUID_SIZE);
    return true;
}

static void put_id(struct sonde_buf *out, const unsigned char *id) {
    static const char digits[] = "0123456789abcdef";
    char text[2 * UUID_SIZE + 4];
    size_t len = 0;
    for (int i = 0; i < UUID_SIZE; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[len++] = '-';
        text[len++] = digits[id[i] >> 4];
        text[len++] = digits[id[i] & 15];
    }
    sonde_buf_append(out, text, len);
}

static void on_node(void *context, uint32_t number) {
    struct writer *writer = context;
    const struct draw_node *node = draw_tree_node(writer->tree, number);
    const char *name = draw_tree_name(writer->tree, number);
    struct sonde_buf *out = writer->out;
    if (writer->failed || out->failed)
        return;
    if (node->depth > 0 && !hash_path(writer, node->depth, name)) {
        writer->failed = true;
        return;
    }
    sonde_buf_puts(out,
                   node->depth ? ",\n{\"profile_location_str\":" : "[{\"profile_location_str\":");
    draw_json(out, name);
    sonde_buf_puts(out, ",\"node_id\":\"");
    if (node->depth > 0)
        put_id(out, writer->ids[node->depth]);
    sonde_buf_puts(out, "\",\"parent_node_id\":\"");
    if (node->depth == 0)
        sonde_buf_puts(out, "-1");
    if (node->depth > 1)
        put_id(out, writer->ids[node->depth - 1]);
    sonde_buf_printf(out, "\",\"self_value\":%lld,\"total_value\":%lld}", (long long)node->self,
                     (long long)node->total);
}

static sonde_err write_tree(const struct draw_tree *tree, struct sonde_buf *out) {
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return SONDE_OUT_OF_MEMORY;
    writer->tree = tree;
    writer->out = out;
    writer->failed = !start_path(writer);
    draw_tree_walk(tree, on_node, NULL, writer);
    sonde_buf_putc(out, ']');
    sonde_err err = writer->failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
    for (size_t i = 0; i <= DRAW_TREE_MAX_DEPTH; i++)
        EVP_MD_CTX_free(writer->paths[i]);
    EVP_MD_CTX_free(writer->digest);
    free(writer);
    return err;
}

sonde_err draw_deepflow_tree(const struct sonde_profile *profile,
                             const struct sonde_draw_options *options, struct sonde_buf *out,
                             struct sonde_diag *diag) {
    struct draw_tree *tree;
    sonde_err err = deepflow_tree_build(profile, options, &tree, diag);
    if (err)
        return err;
    if (tree->total == 0)
        sonde_buf_puts(out, "[]");
    else
        err = write_tree(tree, out);
    draw_tree_destroy(tree);
    return err ? sonde_fail(diag, err, "out of memory") : SONDE_OK;
}
