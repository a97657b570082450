/* SPDX-License-Identifier: Apache-2.0
 *
 * Rust's demangler runs before C++'s, because a legacy Rust name (_ZN..17h<16 hex>E) is also a
 * valid C++ name, which would become "S$LT$T$GT$::get::hba1a...". libiberty's callback functions
 * keep their state on the stack, so the callback can leave with longjmp when it has enough text.
 * That bounds names whose back references double the output with every letter. D's demangler has no
 * such function, so names of D are bounded before. */
#include "service/symbol/demangle.h"

#include "api/text/utf8.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* libiberty's recursion limit suits names of up to 1024 bytes. Templates have longer names; up to
 * 2048 bytes, their recursion fits on a thread's stack without that limit. */
#define PLAIN_LIMIT   1024u
#define MANGLED_LIMIT 2048u
/* A name of D with so many back references becomes at most 4096 times as long, for a moment. */
#define D_REFERENCES 12u

/* --- suffixes --------------------------------------------------------------------------------- */

static const char *const suffixes[] = {"isra",     "constprop", "part",       "cold",
                                       "lto_priv", "llvm",      "localalias", "clone",
                                       "warm",     "__uniq",    "__part"};
/* Parts of a coroutine. They count only after mangled names, because Go functions have such
 * names. */
static const char *const coroutine_suffixes[] = {"resume", "destroy", "cleanup", "actor"};

static bool is_suffix(const char *name, const char *word, size_t len) {
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strlen(suffixes[i]) == len && memcmp(suffixes[i], word, len) == 0)
            return true;
    for (size_t i = 0; i < sizeof coroutine_suffixes / sizeof *coroutine_suffixes; i++)
        if (strlen(coroutine_suffixes[i]) == len && memcmp(coroutine_suffixes[i], word, len) == 0)
            return strncmp(name, "_Z", 2) == 0;
    return false;
}

static bool is_number(const char *word, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)word[i]))
            return false;
    return len > 0;
}

/* The offset of the last ".word" of name[0..len); 0 = none. */
static size_t last_word(const char *name, size_t len) {
    const char *dot = len > 1 ? memrchr(name + 1, '.', len - 1) : NULL;
    return dot ? (size_t)(dot - name) : 0;
}

/* The length without the last suffix, ".known" or ".known.7"; the same length if there is none. */
static size_t without_suffix(const char *name, size_t len) {
    size_t dot = last_word(name, len), end = dot;
    if (dot == 0)
        return len;
    if (is_number(name + dot + 1, len - dot - 1)) {
        dot = last_word(name, end);
        if (dot == 0)
            return len;
    } else {
        end = len;
    }
    return is_suffix(name, name + dot + 1, end - dot - 1) ? dot : len;
}

size_t symbol_clone_base(const char *name, size_t len) {
    const char *at = len > 1 ? memchr(name + 1, '@', len - 1) : NULL;
    if (at && strncmp(at, "@plt", 4) != 0)
        len = (size_t)(at - name);
    for (size_t shorter = without_suffix(name, len); shorter < len;
         shorter = without_suffix(name, len))
        len = shorter;
    return len;
}

/* --- cleaning --------------------------------------------------------------------------------- */

/* Length of the first character of text; 0 when it is a control character or not UTF-8. */
static size_t printable_len(const char *text, size_t len) {
    uint32_t code = 0;
    size_t step = sonde_utf8_next(text, len, &code);
    return sonde_utf8_is_control(code) ? 0 : step;
}

/* Bytes of printable ASCII at the start of text. */
static size_t plain_len(const char *text, size_t len) {
    size_t at = 0;
    while (at < len && text[at] >= 0x20 && text[at] < 0x7f)
        at++;
    return at;
}

void symbol_clean(const char *name, size_t len, struct sonde_buf *to) {
    const size_t room = SYMBOL_NAME_MAX - strlen(SYMBOL_NAME_MARKER);
    size_t start = to->len;
    bool fits = len <= SYMBOL_NAME_MAX;
    size_t plain = fits ? plain_len(name, len) : 0;
    sonde_buf_append(to, name, plain);
    for (size_t i = plain; i < len;) {
        size_t step = printable_len(name + i, len - i);
        if (!fits && to->len - start + (step ? step : 1) > room) {
            sonde_buf_puts(to, SYMBOL_NAME_MARKER);
            return;
        }
        if (step)
            sonde_buf_append(to, name + i, step);
        else
            sonde_buf_putc(to, '?');
        i += step ? step : 1;
    }
}

/* --- demangling ------------------------------------------------------------------------------- */

struct output {
    char text[SYMBOL_NAME_MAX + 1]; /* one more than allowed, to notice a longer result */
    size_t len;
    jmp_buf full;
};

static void on_text(const char *text, size_t len, void *context) {
    struct output *output = context;
    if (len == 0)
        return;
    size_t room = sizeof output->text - output->len;
    size_t taken = len < room ? len : room;
    memcpy(output->text + output->len, text, taken);
    output->len += taken;
    if (len > room || output->len == sizeof output->text)
        longjmp(output->full, 1);
}

static bool demangle(const char *name, size_t len, struct output *output) {
    int options = DMGL_PARAMS | DMGL_ANSI | (len > PLAIN_LIMIT ? DMGL_NO_RECURSE_LIMIT : 0);
    output->len = 0;
    if (setjmp(output->full))
        return true;
    if (rust_demangle_callback(name, DMGL_PARAMS | DMGL_ANSI, on_text, output))
        return output->len > 0;
    output->len = 0;
    return name[0] == '_' && name[1] == 'Z' &&
           cplus_demangle_v3_callback(name, options, on_text, output) && output->len > 0;
}

/* D. */
static bool demangle_d(const char *name, struct output *output) {
    unsigned references = 0;
    for (const char *at = name; *at; at++)
        references += *at == 'Q';
    bool is_small = strlen(name) <= PLAIN_LIMIT && references <= D_REFERENCES;
    char *text = is_small ? dlang_demangle(name, DMGL_PARAMS | DMGL_ANSI) : NULL;
    output->len = 0;
    if (text && !setjmp(output->full))
        on_text(text, strlen(text), output);
    free(text);
    return output->len > 0;
}

void symbol_demangle(const char *name, struct sonde_buf *to) {
    size_t whole = strlen(name), len = symbol_clone_base(name, whole);
    bool is_d = name[0] == '_' && name[1] == 'D';
    bool mangled = is_d || (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'));
    if (!mangled || len > MANGLED_LIMIT) {
        symbol_clean(name, len, to);
        return;
    }
    bool plt = len > 4 && strcmp(name + len - 4, "@plt") == 0;
    char bare[MANGLED_LIMIT + 1];
    struct output output;
    memcpy(bare, name, len);
    bare[plt ? len - 4 : len] = 0;
    if (is_d ? !demangle_d(bare, &output) : !demangle(bare, strlen(bare), &output)) {
        symbol_clean(name, len, to);
        return;
    }
    symbol_clean(output.text, output.len, to);
    if (plt)
        sonde_buf_puts(to, "@plt");
}
