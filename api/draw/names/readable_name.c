/* SPDX-License-Identifier: Apache-2.0
 *
 * A recursive reader of demangled names. It copies the name to `out` and changes what it has just
 * copied: the arguments of a template when their list ends, the parameters when theirs does. */
#include "api/draw/names/readable_name.h"

#include "api/draw/names/default_arguments.h"

#include <ctype.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define DOTS            "..."
#define MAX_DEPTH       60
#define MAX_FAILURES    8 /* each costs another pass over the rest of the name */
#define NONE            ((size_t)-1)

struct reader {
    const char *text;
    size_t at, len;
    struct sonde_buf *out;
    bool with_parameters;
    unsigned depth, failures;
    size_t start;        /* in out: where the function's name begins, after its return type */
    size_t first;        /* where the return type would begin */
    bool is_name_begun;  /* at depth 0: spaces no longer separate a return type */
    size_t operator_end; /* in out: after the symbol of an operator */
};

static char put_until(struct reader *reader, const char *ends);

static bool is_word(char byte) {
    return isalnum((unsigned char)byte) || byte == '_' || byte == '$' || (byte & 0x80);
}

static bool is_next(const struct reader *reader, const char *text) {
    size_t len = strlen(text);
    return reader->len - reader->at >= len && memcmp(reader->text + reader->at, text, len) == 0;
}

static char next(const struct reader *reader) {
    return reader->at < reader->len ? reader->text[reader->at] : 0;
}

static char last(const struct reader *reader) {
    return reader->out->len > reader->first ? reader->out->data[reader->out->len - 1] : 0;
}

static void copy(struct reader *reader, size_t len) {
    sonde_buf_append(reader->out, reader->text + reader->at, len);
    reader->at += len;
}

static void cut(struct reader *reader, size_t len) {
    if (len >= reader->out->len || reader->out->failed)
        return;
    reader->out->len = len;
    reader->out->data[len] = 0;
}

/* The qualified name that out ends with: "std::vector" of "foo(std::vector". */
static struct sonde_slice name_before(const struct reader *reader, size_t end) {
    const char *data = reader->out->data;
    size_t start = end;
    while (start > reader->first && (is_word(data[start - 1]) || data[start - 1] == ':'))
        start--;
    return (struct sonde_slice){data + start, end - start};
}

/* ---- Words ---- */

/* The inline namespaces of libstdc++ and libc++: __cxx11, __1, __ndk1, _V2. */
static bool is_inline_namespace(const char *word, size_t len) {
    if (len == 3 && memcmp(word, "_V2", 3) == 0)
        return true;
    if (len == 7 && memcmp(word, "__cxx11", 7) == 0)
        return true;
    if (len < 3 || memcmp(word, "__", 2) != 0)
        return false;
    size_t at = len > 5 && memcmp(word, "__ndk", 5) == 0 ? 5 : 2;
    while (at < len && isdigit((unsigned char)word[at]))
        at++;
    return at == len;
}

/* Names that begin with two underscores belong to the library, so they need no __gnu_cxx. */
static bool is_left_out(const struct reader *reader, const char *word, size_t len) {
    const char *rest = word + len;
    if (word[0] != '_' || rest[0] != ':' || rest[1] != ':')
        return false;
    struct sonde_slice before = name_before(reader, reader->out->len);
    if (before.len == 0)
        return len == 9 && memcmp(word, "__gnu_cxx", 9) == 0 && strncmp(rest, "::__", 4) == 0;
    return before.len >= 5 && memcmp(before.data, "std::", 5) == 0 &&
           is_inline_namespace(word, len);
}

/* Symbols whose brackets are not brackets, the longest first. */
static void put_symbol(struct reader *reader) {
    static const char *const symbols[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<",
                                          ">>", "<=", ">=",  "->",  "<",   ">",   ","};
    size_t i = 0;
    while (i < COUNT_OF(symbols) && !is_next(reader, symbols[i]))
        i++;
    if (i < COUNT_OF(symbols))
        copy(reader, strlen(symbols[i]));
    else
        while (next(reader) && strchr("+-*/%^&|~!=", next(reader)))
            copy(reader, 1);
    if (is_next(reader, " <"))
        copy(reader, 1);
    reader->operator_end = reader->out->len;
}

static void put_word(struct reader *reader) {
    const char *word = reader->text + reader->at;
    size_t len = 0;
    while (reader->at + len < reader->len && is_word(word[len]))
        len++;
    if (is_left_out(reader, word, len)) {
        reader->at += len + 2;
        return;
    }
    copy(reader, len);
    if (len != 8 || memcmp(word, "operator", 8) != 0)
        return;
    reader->is_name_begun |= reader->depth == 0;
    if (next(reader) && !is_word(next(reader)) && next(reader) != ' ' && next(reader) != ':')
        put_symbol(reader);
}

/* ---- Groups ---- */

/* Goes back to a bracket that is not one, as in "chan<- int)", and copies it. */
static void fail(struct reader *reader, size_t at, size_t len) {
    reader->failures++;
    reader->at = at;
    cut(reader, len);
    copy(reader, 1);
}

/* Ends the list of arguments that begins at `start` in out: leaves default ones out. */
static void end_arguments(struct reader *reader, size_t start, struct draw_template *of,
                          const size_t *starts) {
    struct sonde_buf *out = reader->out;
    if (out->failed || of->count > DRAW_MAX_ARGUMENTS) {
        sonde_buf_putc(out, '>');
        return;
    }
    of->name = name_before(reader, start);
    for (size_t i = 0; i < of->count; i++) {
        size_t end = i + 1 < of->count ? starts[i + 1] - 2 : out->len;
        of->arguments[i] = (struct sonde_slice){out->data + starts[i], end - starts[i]};
    }
    size_t count = draw_without_defaults(of);
    const char *alias = draw_standard_alias(of, count);
    if (alias) {
        cut(reader, start - of->name.len);
        sonde_buf_puts(out, alias);
    } else if (count == 0) {
        cut(reader, start);
    } else {
        cut(reader, count < of->count ? starts[count] - 2 : out->len);
        sonde_buf_putc(out, '>');
    }
}

static void put_arguments(struct reader *reader) {
    struct draw_template of = {.count = 0};
    size_t at = reader->at, len = reader->out->len, starts[DRAW_MAX_ARGUMENTS];
    char end = ',';
    copy(reader, 1);
    while (end == ',' && reader->failures < MAX_FAILURES) {
        if (of.count > 0)
            sonde_buf_puts(reader->out, ", ");
        while (next(reader) == ' ')
            reader->at++;
        size_t start = reader->out->len;
        if (of.count < DRAW_MAX_ARGUMENTS)
            starts[of.count] = start;
        of.count++;
        end = put_until(reader, ",>)");
        while (reader->out->len > start && last(reader) == ' ')
            cut(reader, reader->out->len - 1);
        reader->at += end == ',';
    }
    if (end == ')') {
        fail(reader, at, len);
    } else if (end == '>') {
        reader->at++;
        end_arguments(reader, len, &of, starts);
    }
}

/* Parameters follow a name, the arguments of a template or an operator. Other parentheses are part
 * of a type: "void (*)(int)". */
static bool are_parameters(const struct reader *reader) {
    char before = last(reader);
    return is_word(before) || (before && strchr(">}]", before)) ||
           (before && reader->operator_end == reader->out->len);
}

/* Removes the return type, which demanglers print for templates. */
static void begin_parameters(struct reader *reader) {
    struct sonde_buf *out = reader->out;
    if (reader->depth > 0)
        return;
    bool is_template = last(reader) == '>' && reader->operator_end != out->len;
    if (is_template && reader->start > reader->first) {
        size_t kept = out->len - reader->start;
        memmove(out->data + reader->first, out->data + reader->start, kept);
        cut(reader, reader->first + kept);
    }
    reader->is_name_begun = true;
    reader->start = reader->first;
}

static void put_parentheses(struct reader *reader) {
    static const char anonymous[] = "(anonymous namespace)";
    if (is_next(reader, anonymous)) {
        copy(reader, sizeof anonymous - 1);
        return;
    }
    bool is_folded = are_parameters(reader) && !reader->with_parameters;
    if (are_parameters(reader))
        begin_parameters(reader);
    size_t len = reader->out->len;
    copy(reader, 1);
    put_until(reader, ")");
    if (is_folded && reader->out->len > len + sizeof DOTS) {
        cut(reader, len + 1);
        sonde_buf_puts(reader->out, DOTS);
    }
    if (next(reader))
        copy(reader, 1);
}

/* Leaves "[abi:cxx11]" out. */
static void put_bracket(struct reader *reader) {
    const char *end = is_next(reader, "[abi:")
                          ? memchr(reader->text + reader->at, ']', reader->len - reader->at)
                          : NULL;
    if (end)
        reader->at = (size_t)(end - reader->text) + 1;
    else
        copy(reader, 1);
}

static void put_space(struct reader *reader) {
    copy(reader, 1);
    if (reader->depth == 0 && !reader->is_name_begun)
        reader->start = reader->out->len;
}

/* Copies up to one of `ends` outside of brackets, and returns it; 0 at the end of the name, which
 * may have been cut. */
static char put_until(struct reader *reader, const char *ends) {
    bool is_group = *ends;
    reader->depth += is_group;
    if (reader->depth > MAX_DEPTH)
        reader->failures = MAX_FAILURES;
    char byte = next(reader);
    for (; byte && !strchr(ends, byte) && reader->failures < MAX_FAILURES; byte = next(reader)) {
        if (is_word(byte))
            put_word(reader);
        else if (byte == '<')
            put_arguments(reader);
        else if (byte == '(')
            put_parentheses(reader);
        else if (byte == '[')
            put_bracket(reader);
        else if (byte == ' ')
            put_space(reader);
        else
            copy(reader, is_next(reader, "->") ? 2 : 1);
    }
    reader->depth -= is_group;
    return byte;
}

/* ---- Whole names ---- */

/* The length without "::h" and Rust's hash of 16 digits. */
static size_t without_hash(const char *name) {
    size_t len = strlen(name);
    if (len <= 19 || memcmp(name + len - 19, "::h", 3) != 0 ||
        strspn(name + len - 16, "0123456789abcdef") != 16)
        return len;
    return len - 19;
}

/* The words before the name of what the linker calls by a phrase. */
static void put_phrase(struct reader *reader) {
    static const char *const phrases[] = {
        "non-virtual thunk to ",  "virtual thunk to ",          "covariant return thunk to ",
        "TLS init function for ", "TLS wrapper function for ",  "guard variable for ",
        "transaction clone for ", "non-transaction clone for ",
    };
    for (size_t i = 0; i < COUNT_OF(phrases); i++)
        if (is_next(reader, phrases[i]))
            copy(reader, strlen(phrases[i]));
}

void draw_readable_name(struct sonde_buf *out, const char *name, bool with_parameters) {
    static const char native[] = "execute_native_thread_routine";
    size_t start = out->len;
    struct reader reader = {.text = name, .len = without_hash(name), .out = out};
    /* Of libstdc++: see service/symbol/symtab/thread_start.c. */
    if (strncmp(name, native, sizeof native - 1) == 0) {
        sonde_buf_puts(out, "std::thread");
        return;
    }
    reader.with_parameters = with_parameters;
    reader.operator_end = NONE;
    put_phrase(&reader);
    reader.first = reader.start = out->len;
    put_until(&reader, "");
    if (reader.failures < MAX_FAILURES)
        return;
    reader.first = 0;
    cut(&reader, start);
    sonde_buf_puts(out, name);
}
