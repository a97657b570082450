/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/wire/sql.h"

#include "api/profile/event.h"

#include <string.h>

static void quoted(struct sonde_buf *sql, struct sonde_slice text, char quote) {
    sonde_buf_putc(sql, quote);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte == (unsigned char)quote || byte == '\\')
            sonde_buf_printf(sql, "\\%c", byte);
        else if (byte < 0x20 || byte > 0x7e)
            sonde_buf_printf(sql, "\\x%02X", byte);
        else
            sonde_buf_putc(sql, (char)byte);
    }
    sonde_buf_putc(sql, quote);
}

void sql_text(struct sonde_buf *sql, struct sonde_slice text) {
    quoted(sql, text, '\'');
}

void sql_name(struct sonde_buf *sql, const char *name) {
    quoted(sql, sonde_slice_of(name), '`');
}

static void literal(struct sonde_buf *sql, const char *text) {
    sql_text(sql, sonde_slice_of(text));
}

static uint64_t rotate(uint64_t word, int bits) {
    return word << bits | word >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int count) {
    while (count-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

uint64_t sql_thread_key(const char *name) {
    uint64_t v[4] = {0x736f6d6570736575u, 0x646f72616e646f6du, 0x6c7967656e657261u,
                     0x7465646279746573u};
    size_t len = strlen(name);
    for (size_t at = 0; at <= len; at += 8) {
        size_t here = len - at < 8 ? len - at : 8;
        uint64_t word = 0;
        memcpy(&word, name + at, here);
        if (here < 8)
            word |= (uint64_t)len << 56;
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#define THREAD_OF(list) "arrayFirst(n -> sipHash64(n) = thread, " list ")"

static const struct {
    const char *name, *columns[4]; /* by level; NULL = a label like any other, which is "" */
} columns[] = {
    {"service", {"service", "service", "service", NULL}},
    {"host", {"host", "host", "host", "host"}},
    {"event", {"event", "event", "event", NULL}},
    {"instance", {"instance", "instance", "instance", NULL}},
    {"pid", {"toString(pid)", "toString(pid)", "toString(pid)", NULL}},
    {"process", {NULL, NULL, NULL, "process"}},
    {"thread", {"thread_name", THREAD_OF("threads"), THREAD_OF("names"), "thread"}},
};

/* transform(event, ['on-cpu', ...], ['process_cpu:...', ...], '') */
static void type_of_event(struct sonde_buf *sql) {
    for (int side = 0; side < 2; side++) {
        sonde_buf_puts(sql, side == 0 ? "transform(event, [" : "], [");
        for (size_t i = 0, count = 0; i < SONDE_EVENTS; i++) {
            if (!sonde_events[i].is_recorded)
                continue;
            sonde_buf_puts(sql, count++ ? ", " : "");
            literal(sql, side == 0 ? sonde_events[i].name : sonde_events[i].pyroscope_id);
        }
    }
    sonde_buf_puts(sql, "], '')");
}

void sql_label(struct sonde_buf *sql, const char *name, enum sql_level level) {
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        if (strcmp(columns[i].name, name) == 0 && columns[i].columns[level]) {
            sonde_buf_puts(sql, columns[i].columns[level]);
            return;
        }
    if (level == SQL_TOTAL) {
        sonde_buf_puts(sql, "''");
        return;
    }
    if (strcmp(name, SONDE_TYPE_LABEL) == 0) {
        type_of_event(sql);
        return;
    }
    sonde_buf_puts(sql, level == SQL_LAST ? "v[indexOf(k, " : "label_values[indexOf(label_names, ");
    literal(sql, name);
    sonde_buf_puts(sql, ")]");
}

/* A LIKE pattern in which only %, _ and \ are escaped, as ClickHouse wants it. */
static void like_pattern(struct sonde_buf *sql, const char *pattern) {
    struct sonde_buf normal = {0};
    for (; *pattern; pattern++) {
        bool is_escape = *pattern == '\\';
        if (is_escape && pattern[1])
            pattern++;
        if (is_escape && strchr("%_\\", *pattern))
            sonde_buf_putc(&normal, '\\');
        sonde_buf_putc(&normal, *pattern);
    }
    sql->failed = sql->failed || normal.failed;
    literal(sql, normal.data ? normal.data : "");
    sonde_buf_finish(&normal);
}

/* Whether an integer label is less (op '<') or greater ('>') than the number. Integers of any
 * length are compared by sign, then length, then digits. */
static void integer_order(struct sonde_buf *sql, const char *label, const char *digits,
                          bool is_negative, char op) {
    char of_size = is_negative ? (op == '<' ? '>' : '<') : op;
    bool is_either = is_negative == (op == '>'); /* the sign alone may decide */
    sonde_buf_printf(sql, "(%smatch(%s, '^-0*[1-9]') %s (", op == '>' ? "NOT " : "", label,
                     is_either ? "OR" : "AND");
    sonde_buf_printf(sql, "length(replaceRegexpOne(%s, '^-?0*', '')) %c %zu OR ", label, of_size,
                     strlen(digits));
    sonde_buf_printf(sql, "(length(replaceRegexpOne(%s, '^-?0*', '')) = %zu AND ", label,
                     strlen(digits));
    sonde_buf_printf(sql, "replaceRegexpOne(%s, '^-?0*', '') %c '%s')))", label, of_size, digits);
}

static void order(struct sonde_buf *sql, const char *label, const char *wanted, char op) {
    bool is_negative;
    const char *digits = selector_integer(wanted, &is_negative);
    if (digits) {
        sonde_buf_printf(sql, "if(match(%s, '^-?[0-9]+$'), ", label);
        integer_order(sql, label, digits, is_negative, op);
        sonde_buf_puts(sql, ", ");
    }
    sonde_buf_printf(sql, "%s %c ", label, op);
    literal(sql, wanted);
    if (digits)
        sonde_buf_putc(sql, ')');
}

static void values(struct sonde_buf *sql, const struct selector_node *node) {
    for (size_t i = 0; i < node->value_count; i++) {
        sonde_buf_puts(sql, i ? ", " : "(");
        literal(sql, node->values[i]);
    }
    sonde_buf_puts(sql, ")");
}

static void comparison(struct sonde_buf *sql, const struct selector_node *node, const char *label) {
    const char *wanted = node->values[0];
    switch (node->kind) {
    case SELECTOR_EQUAL:
    case SELECTOR_IN:
        sonde_buf_printf(sql, "%s IN ", label);
        values(sql, node);
        return;
    case SELECTOR_NOT_EQUAL:
        sonde_buf_printf(sql, "%s NOT IN ", label);
        values(sql, node);
        return;
    case SELECTOR_LESS:
    case SELECTOR_GREATER:
        order(sql, label, wanted, node->kind == SELECTOR_LESS ? '<' : '>');
        return;
    case SELECTOR_LESS_EQUAL:
    case SELECTOR_GREATER_EQUAL:
        sonde_buf_puts(sql, "NOT ");
        order(sql, label, wanted, node->kind == SELECTOR_LESS_EQUAL ? '>' : '<');
        return;
    case SELECTOR_LIKE:
        sonde_buf_printf(sql, "like(%s, ", label);
        like_pattern(sql, wanted);
        sonde_buf_putc(sql, ')');
        return;
    default:
        sonde_buf_printf(sql, "match(%s, ", label);
        literal(sql, wanted);
        sonde_buf_putc(sql, ')');
    }
}

static void condition(struct sonde_buf *sql, const struct selector_node *node,
                      enum sql_level level) {
    sonde_buf_puts(sql, node->kind == SELECTOR_NOT ? "(NOT " : "(");
    if (node->name) {
        struct sonde_buf label = {0};
        sql_label(&label, node->name, level);
        sql->failed = sql->failed || label.failed;
        if (!label.failed)
            comparison(sql, node, label.data);
        sonde_buf_finish(&label);
    } else {
        condition(sql, node->left, level);
        if (node->kind != SELECTOR_NOT) {
            sonde_buf_puts(sql, node->kind == SELECTOR_AND ? " AND " : " OR ");
            condition(sql, node->right, level);
        }
    }
    sonde_buf_putc(sql, ')');
}

void sql_condition(struct sonde_buf *sql, const struct selector *selector, enum sql_level level) {
    const struct selector_node *root = selector_root(selector);
    bool is_any_thread = level == SQL_WINDOW && selector_names(selector, "thread");
    if (!root) {
        sonde_buf_putc(sql, '1');
        return;
    }
    /* A server of 2018 reads only columns that are named outside of lambdas, too. */
    if (is_any_thread)
        sonde_buf_puts(sql, "(length(label_names) + length(label_values) + length(event) + "
                            "length(service) + length(host) + length(instance) + pid >= 0 AND "
                            "arrayExists(thread_name -> ");
    condition(sql, root, level);
    if (is_any_thread)
        sonde_buf_puts(sql, ", threads))");
}

static unsigned clamp(int64_t time) {
    return time < 0 ? 0 : time > UINT32_MAX ? UINT32_MAX : (unsigned)time;
}

void sql_times(struct sonde_buf *sql, int64_t from, int64_t until) {
    if (until <= from || until <= 0)
        sonde_buf_puts(sql, "0");
    else
        sonde_buf_printf(sql, "ts >= toDateTime(%u) AND ts < toDateTime(%u)", clamp(from),
                         clamp(until));
}

void sql_range(struct sonde_buf *sql, const struct store_query *query) {
    sonde_buf_puts(sql, "event = ");
    literal(sql, query->event);
    if (query->service && query->service[0]) {
        sonde_buf_puts(sql, " AND service = ");
        literal(sql, query->service);
    }
    sonde_buf_puts(sql, " AND ");
    sql_times(sql, query->from_unix_s, query->until_unix_s);
}

void sql_where(struct sonde_buf *sql, const struct store_query *query) {
    sonde_buf_puts(sql, " WHERE ");
    sql_range(sql, query);
    if (selector_root(query->selector)) {
        sonde_buf_puts(sql, " AND ");
        sql_condition(sql, query->selector, SQL_WINDOW);
    }
}
