// SPDX-License-Identifier: Apache-2.0
// Demangled names as people write them, by the rules of api/draw/names, whose table of names tests both. Functions are told apart by their
// full names; two that would be shown alike have their parameters, or else their full names.

const WRAPPERS = ['std::allocator<', 'std::char_traits<', 'std::less<', 'std::hash<', 'std::equal_to<', 'std::_Select1st<', 'std::_Identity<', 'std::regex_traits<', 'std::default_delete<'];
const POLICIES = new Set(['(__gnu_cxx::_Lock_policy)2', ...['_Select1st', '_Identity', '_Mod_range_hashing', '_Default_ranged_hash', '_Prime_rehash_policy'].map((name) => `std::__detail::${name}`)]);
const CHOSEN = new Set(['std::pair', 'std::tuple', 'std::variant', 'std::_Tuple_impl']);
const PREFIXES = { char: '', wchar_t: 'w', char8_t: 'u8', char16_t: 'u16', char32_t: 'u32' };
const ALIASED = /^std::basic_(string|string_view|[io]stream|iostream|[io]?fstream|[io]?stringstream|streambuf|stringbuf|filebuf|ios|regex)$/;
const PHRASES = ['non-virtual thunk to ', 'virtual thunk to ', 'covariant return thunk to ', 'TLS init function for ', 'TLS wrapper function for ', 'guard variable for ',
    'transaction clone for ', 'non-transaction clone for '];
const SYMBOLS = ['()', '[]', '<=>', '<<=', '>>=', '->*', '<<', '>>', '<=', '>=', '->', '<', '>', ','];
const ANONYMOUS = '(anonymous namespace)', DEEPEST_NAME = 60, NAME_FAILURES = 8, MOST_ARGUMENTS = 64;

const WORD = Array.from({ length: 128 }, (_, code) => /[\w$]/.test(String.fromCharCode(code)));
const isWord = (char) => char !== undefined && (WORD[char.charCodeAt(0)] ?? true);

// The template's arguments without the last ones that are the default.
function withoutDefaults(name, args) {
    const count = (n) => {
        const text = args[n - 1], isEarlier = (inner) => args.slice(0, n - 1).includes(inner) || inner === `std::pair<${args[0]} const, ${args[1]}>` || inner === `std::sub_match<${args[0]}>`;
        if (POLICIES.has(text) || text.startsWith('std::__detail::_Hashtable_traits<')) return true;
        if (n < 2) return false;
        if (WRAPPERS.some((wrapper) => text.startsWith(wrapper) && text.endsWith('>') && isEarlier(text.slice(wrapper.length, -1)))) return true;
        const container = { 'std::queue': 'deque', 'std::stack': 'deque', 'std::priority_queue': 'vector' }[name];
        return n === 2 && container !== undefined && text === `std::${container}<${args[0]}>`;
    };
    let n = args.length;
    if (CHOSEN.has(name) || !/^(std::|__)/.test(name) || n > MOST_ARGUMENTS) return args;
    while (n > 0 && count(n)) n--;
    return args.slice(0, n);
}

// std::string for a std::basic_string of char; undefined if the library has no such name.
function aliasOf(name, args, kept) {
    const prefix = Object.hasOwn(PREFIXES, args[0]) ? PREFIXES[args[0]] : undefined, base = ALIASED.exec(name)?.[1];
    if (name === 'std::basic_string' && args.join() === 'char,std::char_traits<char>,std::pmr::polymorphic_allocator<char>') return 'std::pmr::string';
    if (kept.length !== 1 || base === undefined || prefix === undefined || (prefix[0] === 'u' && !/^string(_view)?$/.test(base))) return undefined;
    return `std::${prefix}${base}`;
}

class NameReader {
    constructor(text, withParameters) {
        Object.assign(this, { text, withParameters, at: 0, out: '', depth: 0, failures: 0, first: 0, start: 0, isNameBegun: false, operatorEnd: -1 });
    }

    isNext(text) {
        return this.text.startsWith(text, this.at);
    }

    copy(length) {
        this.out += this.text.slice(this.at, this.at + length);
        this.at += length;
    }

    // The qualified name that out ends with.
    nameBefore() {
        let start = this.out.length;
        while (start > this.first && (isWord(this.out[start - 1]) || this.out[start - 1] === ':')) start--;
        return this.out.slice(start);
    }

    putSymbol() {
        const symbol = SYMBOLS.find((each) => this.isNext(each));
        if (symbol) this.copy(symbol.length);
        else while (this.at < this.text.length && '+-*/%^&|~!='.includes(this.text[this.at])) this.copy(1);
        if (this.isNext(' <')) this.copy(1);
        this.operatorEnd = this.out.length;
    }

    isInline(word, end) {
        const before = this.nameBefore();
        return before ? before.startsWith('std::') && /^(_V2|__cxx11|__\d+|__ndk\d*)$/.test(word) : word === '__gnu_cxx' && this.text.startsWith('::__', end);
    }

    // Leaves inline namespaces of the standard libraries out.
    putWord() {
        let end = this.at;
        while (isWord(this.text[end])) end++;
        const word = this.text.slice(this.at, end);
        if (word[0] === '_' && this.text.startsWith('::', end) && this.isInline(word, end)) {
            this.at = end + 2;
            return;
        }
        this.copy(end - this.at);
        if (word !== 'operator') return;
        this.isNameBegun ||= this.depth === 0;
        const next = this.text[this.at];
        if (next !== undefined && !isWord(next) && next !== ' ' && next !== ':') this.putSymbol();
    }

    // Arguments of a template. A bracket that is not one, as in "chan<- int)", is copied.
    putArguments() {
        const at = this.at, before = this.out, args = [];
        let end = ',';
        this.copy(1);
        while (end === ',' && this.failures < NAME_FAILURES) {
            if (args.length) this.out += ', ';
            while (this.text[this.at] === ' ') this.at++;
            const start = this.out.length;
            end = this.putUntil(',>)');
            while (this.out.length > start && this.out.endsWith(' ')) this.out = this.out.slice(0, -1);
            args.push(this.out.slice(start));
            if (end === ',') this.at++;
        }
        if (end === ')') {
            this.failures++;
            Object.assign(this, { at, out: before });
            this.copy(1);
        } else if (end === '>') {
            this.at++;
            this.out = before;
            this.endArguments(args);
        }
    }

    endArguments(args) {
        const name = this.nameBefore(), kept = withoutDefaults(name, args), alias = aliasOf(name, args, kept);
        if (alias) this.out = this.out.slice(0, this.out.length - name.length) + alias;
        else if (kept.length) this.out += `<${kept.join(', ')}>`;
    }

    areParameters() {
        const last = this.out.length > this.first ? this.out.at(-1) : undefined;
        return last !== undefined && (isWord(last) || '>}]'.includes(last) || this.operatorEnd === this.out.length);
    }

    // Removes the return type, which demanglers print for templates.
    beginParameters() {
        if (this.depth > 0) return;
        if (this.out.endsWith('>') && this.operatorEnd !== this.out.length && this.start > this.first) this.out = this.out.slice(0, this.first) + this.out.slice(this.start);
        Object.assign(this, { isNameBegun: true, start: this.first });
    }

    putParentheses() {
        if (this.isNext(ANONYMOUS)) {
            this.copy(ANONYMOUS.length);
            return;
        }
        const areParameters = this.areParameters();
        if (areParameters) this.beginParameters();
        const length = this.out.length;
        this.copy(1);
        this.putUntil(')');
        if (areParameters && !this.withParameters && this.out.length > length + 4) this.out = `${this.out.slice(0, length)}(...`;
        if (this.at < this.text.length) this.copy(1);
    }

    // Leaves "[abi:cxx11]" out.
    putBracket() {
        const end = this.isNext('[abi:') ? this.text.indexOf(']', this.at) : -1;
        if (end >= 0) this.at = end + 1;
        else this.copy(1);
    }

    // Copies up to one of `ends` outside of brackets, and returns it.
    putUntil(ends) {
        const isGroup = ends !== '';
        this.depth += isGroup;
        if (this.depth > DEEPEST_NAME) this.failures = NAME_FAILURES;
        let char = this.text[this.at];
        for (; char !== undefined && !ends.includes(char) && this.failures < NAME_FAILURES; char = this.text[this.at]) {
            if (isWord(char)) this.putWord();
            else if (char === '<') this.putArguments();
            else if (char === '(') this.putParentheses();
            else if (char === '[') this.putBracket();
            else this.copy(this.isNext('->') ? 2 : 1);
            if (char === ' ' && this.depth === 0 && !this.isNameBegun) this.start = this.out.length;
        }
        this.depth -= isGroup;
        return char;
    }
}

export function readableName(name, withParameters = false) {
    if (name.startsWith('execute_native_thread_routine')) return 'std::thread';
    if (!/[<([:]/.test(name)) return name;
    const reader = new NameReader(name.replace(/(?<=.)::h[0-9a-f]{16}$/, ''), withParameters);
    for (const phrase of PHRASES) if (reader.isNext(phrase)) reader.copy(phrase.length);
    reader.first = reader.start = reader.out.length;
    reader.putUntil('');
    return reader.failures < NAME_FAILURES ? reader.out : name;
}

const knownNames = new Map(), MOST_KNOWN = 50000;

function knownName(name) {
    let shown = knownNames.get(name);
    if (shown === undefined) {
        if (knownNames.size >= MOST_KNOWN) knownNames.clear();
        knownNames.set(name, shown = readableName(name));
    }
    return shown;
}

// The names by which a view shows these.
export function viewNames(names) {
    const shown = names.map(knownName), detail = names.map(() => 0);
    for (let hasChanged = true; hasChanged;) {
        const groups = new Map();
        hasChanged = false;
        shown.forEach((text, i) => (groups.has(text) ? groups.get(text).push(i) : groups.set(text, [i])));
        for (const group of groups.values()) {
            if (group.every((i) => names[i] === names[group[0]])) continue;
            for (const i of group.filter((each) => detail[each] < 2)) {
                shown[i] = ++detail[i] === 1 ? readableName(names[i], true) : names[i];
                hasChanged = true;
            }
        }
    }
    return shown;
}
