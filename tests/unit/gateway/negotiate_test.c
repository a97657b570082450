/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/negotiate.h"

#include "tests/unit/check.h"

#define BROWSER "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

struct row {
    const char *who;
    const char *accept, *accept_encoding, *content_type, *user_agent; /* NULL = not sent */
    enum negotiate_shape shape;
    bool pprof, browser;
};

static const struct row rows[] = {
    {"go tool pprof", NULL, "gzip", NULL, "Go-http-client/1.1", NEGOTIATE_PROTO, true, false},
    {"parca", NULL, NULL, NULL, "conprof/0.24.0", NEGOTIATE_PROTO, true, false},
    {"alloy", NULL, NULL, NULL, "Alloy/v1.8.0 (linux; docker)", NEGOTIATE_PROTO, true, false},
    {"a Go client without compression", NULL, NULL, NULL, "Go-http-client/2.0", NEGOTIATE_PROTO,
     true, false},
    {"curl", "*/*", NULL, NULL, "curl/7.88.1", NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"curl --compressed", "*/*", "deflate, gzip, br, zstd", NULL, "curl/7.88.1",
     NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"python http.client", NULL, "identity", NULL, NULL, NEGOTIATE_PROTO, true, false},
    {"nothing at all", NULL, NULL, NULL, NULL, NEGOTIATE_PROTO, true, false},
    {"chrome", BROWSER, "gzip, deflate, br", NULL, "Mozilla/5.0", NEGOTIATE_SVG_INLINE, false,
     true},
    {"an img element", "image/avif,image/svg+xml,image/*,*/*;q=0.8", "gzip", NULL, "Mozilla/5.0",
     NEGOTIATE_SVG_INLINE, false, true},
    {"content type", "*/*", NULL, "application/protobuf", NULL, NEGOTIATE_PROTO, false, false},
    {"content type before a browser's accept", BROWSER, NULL, "application/protobuf", NULL,
     NEGOTIATE_PROTO, false, true},
    {"content type with parameters", "*/*", NULL, "application/protobuf; charset=utf-8", NULL,
     NEGOTIATE_PROTO, false, false},
    {"content type in capitals", "*/*", NULL, "Application/Protobuf", NULL, NEGOTIATE_PROTO, false,
     false},
    {"another content type", "*/*", NULL, "text/plain", NULL, NEGOTIATE_SVG_ATTACHMENT, false,
     false},
    {"accept protobuf", "application/x-protobuf", NULL, NULL, NULL, NEGOTIATE_PROTO, false, false},
    {"accept vendor protobuf", "application/vnd.google.protobuf;proto=x", NULL, NULL, NULL,
     NEGOTIATE_PROTO, false, false},
    {"accept octets before html", "text/html, application/octet-stream;q=0.1", NULL, NULL, NULL,
     NEGOTIATE_PROTO, false, true},
    {"html after a wildcard", "*/*, image/svg+xml", NULL, NULL, NULL, NEGOTIATE_SVG_INLINE, false,
     true},
    {"html with a weight", "text/html;q=0.9", NULL, NULL, NULL, NEGOTIATE_SVG_INLINE, false, true},
    {"html refused", "text/html;q=0", NULL, NULL, NULL, NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"html refused in three digits", "text/html ; q=0.000", NULL, NULL, NULL,
     NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"html barely wanted", "text/html;q=0.001", NULL, NULL, NULL, NEGOTIATE_SVG_INLINE, false,
     true},
    {"a wildcard subtype", "text/*", NULL, NULL, NULL, NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"a comma in a quoted string", "x/y;a=\"text/html, text/html\"", NULL, NULL, NULL,
     NEGOTIATE_SVG_ATTACHMENT, false, false},
    {"gzip refused", NULL, "gzip;q=0", NULL, NULL, NEGOTIATE_PROTO, true, false},
    {"gzip with a weight", NULL, "br, GZIP;q=0.5", NULL, NULL, NEGOTIATE_PROTO, true, false},
    {"an accept that is empty", "", "gzip", NULL, "Go-http-client/1.1", NEGOTIATE_SVG_ATTACHMENT,
     false, false},
};

static struct sonde_slice sent(const char *text) {
    return text ? sonde_slice_of(text) : (struct sonde_slice){NULL, 0};
}

TEST(every_known_client_gets_a_format_it_reads) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct negotiate_headers headers = {sent(row->accept), sent(row->accept_encoding),
                                            sent(row->content_type), sent(row->user_agent)};
        if (negotiate_profile(&headers) != row->shape)
            check_fail(__FILE__, __LINE__, "%s: shape %d, not %d", row->who,
                       negotiate_profile(&headers), row->shape);
        if (negotiate_reads_pprof(&headers) != row->pprof ||
            negotiate_is_browser(&headers) != row->browser)
            check_fail(__FILE__, __LINE__, "%s: taken for somebody else", row->who);
    }
}

TEST(a_coding_is_only_listed_by_its_own_name) {
    CHECK(negotiate_lists_coding(sent("gzip"), "gzip"));
    CHECK(negotiate_lists_coding(sent(" br ,\tgzip ; q=1"), "gzip"));
    CHECK(!negotiate_lists_coding(sent("x-gzip"), "gzip"));
    CHECK(!negotiate_lists_coding(sent("*"), "gzip"));
    CHECK(!negotiate_lists_coding(sent("gzip;q=0.0"), "gzip"));
    CHECK(!negotiate_lists_coding(sent(NULL), "gzip"));
}

TEST(broken_lists_name_nothing) {
    CHECK(!negotiate_names_type(sent(",,;,;;q=,\"text/html"), "text/html"));
    CHECK(!negotiate_names_type(sent("\"text/html\\"), "text/html"));
    CHECK(negotiate_names_type(sent(";;;,text/html"), "text/html"));
}
