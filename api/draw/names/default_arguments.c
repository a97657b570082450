/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/names/default_arguments.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static bool is_text(struct sonde_slice slice, const char *text) {
    return sonde_slice_equals(slice, text);
}

static bool equal(struct sonde_slice a, struct sonde_slice b) {
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Cuts `word` off the start of the slice. */
static bool cut_start(struct sonde_slice *slice, const char *word) {
    size_t len = strlen(word);
    if (slice->len < len || memcmp(slice->data, word, len) != 0)
        return false;
    slice->data += len;
    slice->len -= len;
    return true;
}

static bool cut_end(struct sonde_slice *slice, const char *word) {
    size_t len = strlen(word);
    if (slice->len < len || memcmp(slice->data + slice->len - len, word, len) != 0)
        return false;
    slice->len -= len;
    return true;
}

/* Whether text is `before`, a and `after`. */
static bool wraps(struct sonde_slice text, const char *before, struct sonde_slice a,
                  const char *after) {
    return cut_start(&text, before) && cut_end(&text, after) && equal(text, a);
}

/* std::pair<K const, V>, the element of a map. */
static bool is_element(struct sonde_slice text, const struct draw_template *of) {
    struct sonde_slice value;
    if (of->count < 2 || !cut_start(&text, "std::pair<") || text.len < of->arguments[0].len ||
        memcmp(text.data, of->arguments[0].data, of->arguments[0].len) != 0)
        return false;
    value = (struct sonde_slice){text.data + of->arguments[0].len, text.len - of->arguments[0].len};
    return wraps(value, " const, ", of->arguments[1], ">");
}

/* What a default argument is of: an earlier argument, or the elements of the container. */
static bool is_earlier(struct sonde_slice text, const struct draw_template *of, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (equal(text, of->arguments[i]))
            return true;
    return is_element(text, of) || wraps(text, "std::sub_match<", of->arguments[0], ">");
}

static bool is_wrapped_default(const struct draw_template *of, size_t index) {
    static const char *const wrappers[] = {
        "std::allocator<", "std::char_traits<",  "std::less<",
        "std::hash<",      "std::equal_to<",     "std::_Select1st<",
        "std::_Identity<", "std::regex_traits<", "std::default_delete<",
    };
    for (size_t i = 0; i < COUNT_OF(wrappers); i++) {
        struct sonde_slice text = of->arguments[index];
        if (cut_start(&text, wrappers[i]) && cut_end(&text, ">") && is_earlier(text, of, index))
            return true;
    }
    return false;
}

static bool is_default_container(const struct draw_template *of, size_t index) {
    bool is_queue = is_text(of->name, "std::queue") || is_text(of->name, "std::stack");
    struct sonde_slice text = of->arguments[index];
    if (index != 1 || (!is_queue && !is_text(of->name, "std::priority_queue")))
        return false;
    return wraps(text, is_queue ? "std::deque<" : "std::vector<", of->arguments[0], ">");
}

/* The policies of hash tables and of shared pointers. */
static bool is_policy(struct sonde_slice text) {
    static const char *const policies[] = {
        "(__gnu_cxx::_Lock_policy)2",
        "std::__detail::_Select1st",
        "std::__detail::_Identity",
        "std::__detail::_Mod_range_hashing",
        "std::__detail::_Default_ranged_hash",
        "std::__detail::_Prime_rehash_policy",
    };
    for (size_t i = 0; i < COUNT_OF(policies); i++)
        if (is_text(text, policies[i]))
            return true;
    return cut_start(&text, "std::__detail::_Hashtable_traits<");
}

/* The arguments of these templates are all chosen, so that std::pair<T, std::less<T>> keeps
 * both. */
static bool has_no_defaults(struct sonde_slice name) {
    static const char *const names[] = {"std::pair", "std::tuple", "std::variant",
                                        "std::_Tuple_impl"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (is_text(name, names[i]))
            return true;
    return !cut_start(&name, "std::") && !cut_start(&name, "__gnu_cxx::") &&
           !cut_start(&name, "__");
}

size_t draw_without_defaults(const struct draw_template *of) {
    size_t count = of->count;
    if (has_no_defaults(of->name))
        return count;
    while (count > 0 && (is_policy(of->arguments[count - 1]) ||
                         (count > 1 && (is_wrapped_default(of, count - 1) ||
                                        is_default_container(of, count - 1)))))
        count--;
    return count;
}

/* "", "w", "u8", ...: what the names of a character's types begin with. NULL = no character. */
static const char *prefix_of(struct sonde_slice character) {
    static const char *const types[][2] = {{"char", ""},
                                           {"wchar_t", "w"},
                                           {"char8_t", "u8"},
                                           {"char16_t", "u16"},
                                           {"char32_t", "u32"}};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (is_text(character, types[i][0]))
            return types[i][1];
    return NULL;
}

const char *draw_standard_alias(const struct draw_template *of, size_t count) {
    /* In the order of prefix_of: char and wchar_t have all of these, the others have the first
     * two. */
    static const char *const aliases[][6] = {
        {"std::basic_string", "std::string", "std::wstring", "std::u8string", "std::u16string",
         "std::u32string"},
        {"std::basic_string_view", "std::string_view", "std::wstring_view", "std::u8string_view",
         "std::u16string_view", "std::u32string_view"},
        {"std::basic_ostream", "std::ostream", "std::wostream"},
        {"std::basic_istream", "std::istream", "std::wistream"},
        {"std::basic_iostream", "std::iostream", "std::wiostream"},
        {"std::basic_ofstream", "std::ofstream", "std::wofstream"},
        {"std::basic_ifstream", "std::ifstream", "std::wifstream"},
        {"std::basic_fstream", "std::fstream", "std::wfstream"},
        {"std::basic_ostringstream", "std::ostringstream", "std::wostringstream"},
        {"std::basic_istringstream", "std::istringstream", "std::wistringstream"},
        {"std::basic_stringstream", "std::stringstream", "std::wstringstream"},
        {"std::basic_streambuf", "std::streambuf", "std::wstreambuf"},
        {"std::basic_stringbuf", "std::stringbuf", "std::wstringbuf"},
        {"std::basic_filebuf", "std::filebuf", "std::wfilebuf"},
        {"std::basic_ios", "std::ios", "std::wios"},
        {"std::basic_regex", "std::regex", "std::wregex"},
    };
    static const char *const prefixes[] = {"", "w", "u8", "u16", "u32"};
    const char *prefix = of->count > 0 ? prefix_of(of->arguments[0]) : NULL;
    bool is_pmr = count == 3 && is_text(of->name, "std::basic_string") &&
                  wraps(of->arguments[1], "std::char_traits<", of->arguments[0], ">") &&
                  is_text(of->arguments[0], "char") &&
                  is_text(of->arguments[2], "std::pmr::polymorphic_allocator<char>");
    if (is_pmr)
        return "std::pmr::string";
    if (count != 1 || !prefix)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(aliases); i++)
        for (size_t j = 0; is_text(of->name, aliases[i][0]) && j < COUNT_OF(prefixes); j++)
            if (strcmp(prefixes[j], prefix) == 0)
                return aliases[i][j + 1];
    return NULL;
}
