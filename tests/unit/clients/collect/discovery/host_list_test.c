/* SPDX-License-Identifier: Apache-2.0
 *
 * The two forms of a list of hosts: what they say, and each refusal. */
#include "clients/collect/discovery/host_list.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct host_list *list;
static char refusal[400];

/* Reads a list of either form, as a file does. */
static sonde_err read_list(const char *contents) {
    struct sonde_diag diag = {0};
    size_t len = strlen(contents);
    char *copy = strdup(contents);
    list = host_list_create("file f");
    CHECK(list && copy);
    sonde_err err = host_list_is_json(copy, len) ? host_list_read_json(list, "f", copy, len, &diag)
                                                 : host_list_read_text(list, "f", copy, len, &diag);
    memset(copy, 'x', len); /* nothing may point there */
    free(copy);
    snprintf(refusal, sizeof refusal, "%s", diag.text);
    return err;
}

/* "NAME ADDRESS TLS{KEY=VALUE,...} ..." */
static const char *text_of_list(void) {
    static char text[4096];
    struct sonde_buf out = {0};
    for (size_t i = 0; i < list->count; i++) {
        const struct discovered_host *host = &list->hosts[i];
        sonde_buf_printf(&out, "%s%s %s %s{", i ? " " : "", host->name, host->address,
                         host->tls_name ? host->tls_name : "-");
        for (size_t j = 0; j < host->label_count; j++)
            sonde_buf_printf(&out, "%s%s=%s", j ? "," : "", host->labels[j].name,
                             host->labels[j].value);
        sonde_buf_putc(&out, '}');
    }
    snprintf(text, sizeof text, "%s", out.data ? out.data : "");
    sonde_buf_finish(&out);
    return text;
}

static void check_list(const char *contents, const char *expected) {
    sonde_err err = read_list(contents);
    CHECK_STR(refusal, "");
    CHECK_INT(err, ==, SONDE_OK);
    CHECK_STR(text_of_list(), expected);
    host_list_destroy(list);
}

static void check_refused(const char *contents, const char *expected) {
    CHECK(read_list(contents) != SONDE_OK);
    CHECK_STR(refusal, expected);
    host_list_destroy(list);
}

TEST(hosts_text_has_addresses_names_and_labels) {
    check_list("# the fleet\n\n10.0.0.1:20181\n"
               "  10.0.0.2:20181\tname=web-2 tls-name=web-2.example zone=b env=prod # old\r\n"
               "[2001:db8::1]:20181 note=\"two \\\"words\\\" \\\\ # no comment\"\n"
               "unix:/run/sonde/grpc.sock note=\"\" empty= name=local",
               "10.0.0.1:20181 10.0.0.1:20181 -{} web-2 10.0.0.2:20181 "
               "web-2.example{env=prod,zone=b} [2001:db8::1]:20181 [2001:db8::1]:20181 "
               "-{note=two \"words\" \\ # no comment} local unix:/run/sonde/grpc.sock "
               "-{empty=,note=}");
}

TEST(hosts_text_with_only_a_comment_is_an_empty_list) {
    check_list("# nobody\n", "");
}

TEST(hosts_know_their_origin) {
    CHECK_INT(read_list("a:1\nb:1\n"), ==, SONDE_OK);
    CHECK_STR(list->hosts[0].origin, "file f");
    CHECK_STR(list->hosts[1].origin, "file f");
    host_list_destroy(list);
}

TEST(hosts_text_counts_an_address_once) {
    check_list("a:1 name=x\na:1 name=y\n", "x a:1 -{}");
}

TEST(hosts_text_mistakes_are_refused_with_their_line) {
    check_refused("a:1\n10.0.0.1\n", "f:2: \"10.0.0.1\": the port is missing; write HOST:PORT");
    check_refused("a:0", "f:1: \"a:0\": the port must be a number from 1 to 65535");
    check_refused("a:65536", "f:1: \"a:65536\": the port must be a number from 1 to 65535");
    check_refused("a:1x", "f:1: \"a:1x\": the port must be a number from 1 to 65535");
    check_refused("::1:20181", "f:1: \"::1:20181\": write HOST:PORT, with [ ] around an IPv6 "
                               "address, or unix:PATH");
    check_refused("http://a:1", "f:1: \"http://a:1\": write HOST:PORT, with [ ] around an IPv6 "
                                "address, or unix:PATH");
    check_refused(":1", "f:1: \":1\": write HOST:PORT, with [ ] around an IPv6 address, or "
                        "unix:PATH");
    check_refused("\xff:1", "f:1: \"...\": write HOST:PORT, with [ ] around an IPv6 address, or "
                            "unix:PATH");
    check_refused("unix:a", "f:1: \"unix:a\": the path of unix: begins with / and has at most "
                            "107 bytes");
    check_refused("a:1 web", "f:1: \"web\": after the address write name=NAME, tls-name=NAME or "
                             "KEY=VALUE");
    check_refused("a:1 =b", "f:1: \"=b\": after the address write name=NAME, tls-name=NAME or "
                            "KEY=VALUE");
    check_refused("a:1 k=\"v", "f:1: \"k\": end the value with a double quote and a space");
    check_refused("a:1 k=\"v\"w", "f:1: \"k\": end the value with a double quote and a space");
    check_refused("a:1 name=b name=c", "f:1: \"name\": this is given twice");
    check_refused("a:1 k=b k=c", "f:1: \"k\": this label is given twice");
    check_refused("a:1 __k=b", "f:1: \"__k\": labels whose names begin with __ are reserved");
    check_refused("a:1 name=", "f:1: \"\": name must have 1 to 255 bytes");
    check_refused("a:1 name=\x01", "f:1: name must be UTF-8 without control characters");
    check_refused("a:1 k=\xff", "f:1: labels must be UTF-8 without control characters");
    check_refused("a:1 tls-name=a/b", "f:1: \"a/b\": tls-name must be a host name or an address "
                                      "without a port");
    check_refused("a:1 name=x\nb:1 name=x", "f:2: \"x\": another host of this list has this name");
}

TEST(hosts_text_with_zero_bytes_is_refused) {
    char text[] = "a:1\0b:1";
    struct sonde_diag diag = {0};
    list = host_list_create("f");
    CHECK_INT(host_list_read_text(list, "f", text, sizeof text - 1, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "f: the file has zero bytes; write text or JSON");
    host_list_destroy(list);
}

TEST(hosts_json_is_prometheus_http_sd) {
    check_list(" [ {\"targets\": [\"a:1\", \"b:2\"], \"labels\": {\"zone\": \"b\", \"env\": \"p\", "
               "\"__meta_x\": \"y\"}},\n{\"targets\": [\"c:3\"]}, {\"targets\": []},"
               "{\"targets\": [\"d:4\"], \"labels\": {\"__sonde_name\": \"four\", "
               "\"__sonde_tls_name\": \"d.example\"}}]",
               "a:1 a:1 -{env=p,zone=b} b:2 b:2 -{env=p,zone=b} c:3 c:3 -{} four d:4 d.example{}");
    check_list("[]", "");
    check_list("[{\"targets\": [\"a:1\"], \"labels\": null, \"more\": 1}]", "a:1 a:1 -{}");
}

TEST(hosts_json_mistakes_are_refused_with_their_place) {
    check_refused("{}", "f: byte 1: write an array, [{\"targets\": [\"HOST:PORT\"]}]");
    check_refused("[1x]", "f:1: \"[1x]\": write HOST:PORT, with [ ] around an IPv6 address, or "
                          "unix:PATH");
    check_refused("[\"a:1\"]", "f: group 1: write {\"targets\": [\"HOST:PORT\", ...], \"labels\": "
                               "{...}}");
    check_refused("[{\"targets\": []}, {\"targets\": {}}]",
                  "f: group 2: write {\"targets\": [\"HOST:PORT\", ...], \"labels\": {...}}");
    check_refused("[{\"targets\": [1]}]", "f: group 1: a target must be a string, \"HOST:PORT\"");
    check_refused("[{\"targets\": [\"a\"]}]", "f: group 1: \"a\": the port is missing; write "
                                              "HOST:PORT");
    check_refused("[{\"targets\": [\"a:1\"], \"labels\": []}]",
                  "f: group 1: \"labels\" must be an object of strings");
    check_refused("[{\"targets\": [\"a:1\"], \"labels\": {\"k\": 1}}]",
                  "f: group 1: the label \"k\" must be a string without zero bytes");
    check_refused("[{\"targets\": [\"a:1\", \"b:1\"], \"labels\": {\"__sonde_name\": \"x\"}}]",
                  "f: group 1: __sonde_name is the name of one host; write a group for each");
    check_refused("[{\"targets\": [\"a:1\"], \"labels\": {\"\": \"x\"}}]",
                  "f: group 1: \"\": a label's name must have 1 to 1,024 bytes, its value at most "
                  "1,024");
}

TEST(hosts_json_that_is_not_json_is_refused_with_its_byte) {
    CHECK(read_list("[{\"targets\": [\"a:1\"},]") == SONDE_INVALID_ARGUMENT);
    CHECK(strncmp(refusal, "f: byte 20: not JSON: ", 22) == 0);
    host_list_destroy(list);
    CHECK(read_list("[") == SONDE_INVALID_ARGUMENT);
    CHECK(strstr(refusal, "not JSON"));
    host_list_destroy(list);
    CHECK(read_list("[{\"targets\": [], \"targets\": []}]") == SONDE_INVALID_ARGUMENT);
    CHECK(strstr(refusal, "duplicate"));
    host_list_destroy(list);
    CHECK(read_list("[{\"targets\": [\"a\\u0000:1\"]}]") == SONDE_INVALID_ARGUMENT);
    host_list_destroy(list);
}

TEST(hosts_json_is_not_mistaken_for_an_ipv6_address) {
    check_list("[::1]:5", "[::1]:5 [::1]:5 -{}");
    check_list("[fe80::1]:5", "[fe80::1]:5 [fe80::1]:5 -{}");
    CHECK(host_list_is_json("[", 1));
    CHECK(host_list_is_json("\n[ {", 4));
    CHECK(!host_list_is_json("", 0));
}

TEST(hosts_names_and_labels_have_bounds) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "a:1 name=");
    for (int i = 0; i < HOST_LIST_MAX_NAME; i++)
        sonde_buf_putc(&text, 'n');
    CHECK_INT(read_list(text.data), ==, SONDE_OK);
    host_list_destroy(list);
    sonde_buf_putc(&text, 'n');
    CHECK_INT(read_list(text.data), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(refusal, "name must have 1 to 255 bytes"));
    host_list_destroy(list);
    sonde_buf_finish(&text);
    sonde_buf_puts(&text, "a:1 k=");
    for (int i = 0; i <= HOST_LIST_MAX_LABEL; i++)
        sonde_buf_putc(&text, 'v');
    CHECK_INT(read_list(text.data), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(refusal, "its value at most 1,024"));
    host_list_destroy(list);
    sonde_buf_finish(&text);
    sonde_buf_puts(&text, "a:1");
    for (int i = 0; i < HOST_LIST_MAX_LABELS; i++)
        sonde_buf_printf(&text, " k%d=v", i);
    CHECK_INT(read_list(text.data), ==, SONDE_OK);
    CHECK_INT(list->hosts[0].label_count, ==, HOST_LIST_MAX_LABELS);
    host_list_destroy(list);
    sonde_buf_puts(&text, " one=more");
    check_refused(text.data, "f:1: a host has at most 64 labels");
    sonde_buf_finish(&text);
}

TEST(hosts_json_labels_of_a_group_have_the_same_bound) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "[{\"targets\": [\"a:1\"], \"labels\": {\"k\": \"v\"");
    for (int i = 0; i < HOST_LIST_MAX_LABELS; i++)
        sonde_buf_printf(&text, ", \"k%d\": \"v\"", i);
    sonde_buf_puts(&text, "}}]");
    check_refused(text.data, "f: group 1: a host has at most 64 labels");
    sonde_buf_finish(&text);
}

/* One label of a group with many targets counts for each of them. */
TEST(hosts_labels_of_all_hosts_have_a_bound) {
    struct sonde_buf text = {0};
    sonde_buf_puts(&text, "[{\"labels\": {\"k\": \"");
    for (int i = 0; i < HOST_LIST_MAX_LABEL; i++)
        sonde_buf_putc(&text, 'v');
    sonde_buf_puts(&text, "\"}, \"targets\": [\"h:1\"");
    for (int i = 0; i < 70000; i++)
        sonde_buf_printf(&text, ",\"h%d:1\"", i);
    sonde_buf_puts(&text, "]}]");
    CHECK_INT(read_list(text.data), ==, SONDE_TOO_LARGE);
    CHECK_STR(refusal,
              "f: group 1: the labels of all hosts have more than 64 MiB; use fewer labels");
    host_list_destroy(list);
    sonde_buf_finish(&text);
}

TEST(hosts_are_at_most_a_hundred_thousand) {
    struct sonde_buf text = {0};
    for (int i = 0; i < DISCOVERY_MAX_HOSTS; i++)
        sonde_buf_printf(&text, "h%d:1\n", i);
    CHECK_INT(read_list(text.data), ==, SONDE_OK);
    CHECK_INT(list->count, ==, DISCOVERY_MAX_HOSTS);
    host_list_destroy(list);
    sonde_buf_puts(&text, "one-more:1\n");
    CHECK_INT(read_list(text.data), ==, SONDE_TOO_LARGE);
    CHECK_STR(refusal, "f:100001: more than 100000 hosts; start another controller for the others");
    host_list_destroy(list);
    sonde_buf_finish(&text);
}
