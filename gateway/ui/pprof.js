// SPDX-License-Identifier: Apache-2.0
// Reads and writes pprof files (github.com/google/pprof, proto/profile.proto). Dropped files may be anything: every length is checked,
// and what is unpacked is bounded.
import { KIND, Profile } from './profile.js';

const fail = (why) => { throw new Error(why ? `not a pprof profile: ${why}` : 'the profile is cut off'); };

// As in api/profile/profile.h, so that the page and the command line show the same of a file.
const MAX_TYPES = 64, MAX_LABELS = 64, MAX_DEPTH = 1024, TRUNCATED = '[truncated]';
const MAX_UNPACKED = 512 << 20, SPACING = 2 ** 24;

// `end` is the end of the innermost message that is being read.
class Reader {
    constructor(bytes) {
        Object.assign(this, { bytes, at: 0, end: bytes.length });
    }

    // A number that is not an id. One above 2^53 loses its last bits.
    varint() {
        const first = this.bytes[this.at];
        if (first < 128 && this.at < this.end) return this.at++, first;
        let value = 0, scale = 1;
        for (let i = 0; i < 10; i++) {
            if (this.at >= this.end) fail();
            const byte = this.bytes[this.at++];
            value += (byte & 127) * scale;
            if (byte < 128) return value;
            scale *= 128;
        }
        fail('a number is too long');
    }

    signed() {
        const start = this.at, value = this.varint();
        return this.at - start < 10 ? value : Number(BigInt.asIntN(64, this.exact(start)));
    }

    // An id or an address, which is any number of 64 bits: a BigInt above 2^53, so that each is equal to itself only.
    id() {
        const start = this.at, value = this.varint();
        return value <= Number.MAX_SAFE_INTEGER ? value : BigInt.asUintN(64, this.exact(start));
    }

    // The varint that begins there and ends here.
    exact(start) {
        let value = 0n;
        for (let i = this.at - 1; i >= start; i--) value = value << 7n | BigInt(this.bytes[i] & 127);
        return value;
    }

    // Begins the message at this place; leave() takes what it returns.
    enter() {
        const size = this.varint(), outer = this.end;
        if (size > outer - this.at) fail();
        this.end = this.at + size;
        return outer;
    }

    leave(outer) {
        this.at = this.end;
        this.end = outer;
    }

    // The number of the next field, 0 at the end of the message. Its wire type is in `type`.
    next() {
        if (this.at >= this.end) return 0;
        const tag = this.varint();
        if (tag < 8) fail('a field has no number');
        this.type = tag & 7;
        return tag >>> 3;
    }

    skip() {
        if (this.type === 0) this.varint();
        else if (this.type === 2) this.leave(this.enter());
        else if (this.type === 1 || this.type === 5) this.at += this.type === 1 ? 8 : 4;
        else fail('an unknown wire type');
        if (this.at > this.end) fail();
    }

    // A repeated number, packed or not; read() reads one.
    numbers(into, read = this.signed) {
        if (this.type === 0) return into.push(read.call(this));
        if (this.type !== 2) fail('numbers have the wrong type');
        const outer = this.enter();
        while (this.at < this.end) into.push(read.call(this));
        this.leave(outer);
    }

    // A message of numbers: its fields by number. The first `ids` are ids.
    message(ids = 0) {
        const result = [0, 0, 0, 0, 0, 0, 0], outer = this.enter();
        for (let field; (field = this.next());) {
            if (this.type === 0 && field < 7) result[field] = field <= ids ? this.id() : this.signed();
            else this.skip();
        }
        this.leave(outer);
        return result;
    }
}

function readLocation(reader) {
    const location = { numbers: [0, 0, 0, 0], lines: [] }, outer = reader.enter();
    for (let field; (field = reader.next());) {
        if (field === 4 && reader.type === 2) location.lines.push(reader.message(1));
        else if (reader.type === 0 && field < 4) location.numbers[field] = reader.id();
        else reader.skip();
    }
    reader.leave(outer);
    return location;
}

function readSample(reader) {
    const sample = { locations: [], values: [], labels: [] }, outer = reader.enter();
    for (let field; (field = reader.next());) {
        if (field === 1) reader.numbers(sample.locations, reader.id);
        else if (field === 2) reader.numbers(sample.values);
        else if (field === 3 && reader.type === 2) sample.labels.push(reader.message());
        else reader.skip();
    }
    reader.leave(outer);
    return sample;
}

function readFile(bytes) {
    const reader = new Reader(bytes), decoder = new TextDecoder(), latin = new TextDecoder('latin1').decode(bytes);
    const file = { types: [], samples: [], mappings: [], locations: [], functions: [], strings: [], comments: [], period: [], numbers: {} };
    const message = () => reader.message(), withId = () => reader.message(1), withAddresses = () => reader.message(4), string = () => {
        const outer = reader.enter(), start = reader.at, text = latin.slice(start, reader.end);
        reader.leave(outer);
        return /^[\0-\x7f]*$/.test(text) ? text : decoder.decode(bytes.subarray(start, reader.at));
    };
    const lists = [null, [file.types, message], [file.samples, readSample], [file.mappings, withAddresses], [file.locations, readLocation], [file.functions, withId],
        [file.strings, string]];
    for (let field; (field = reader.next());) {
        if (lists[field] && reader.type !== 2) fail('a field has the wrong type');
        if (lists[field]) lists[field][0].push(lists[field][1](reader));
        else if (field === 11 && reader.type === 2) file.period = message();
        else if (field === 13) reader.numbers(file.comments);
        else if (reader.type === 0) file.numbers[field] = reader.signed();
        else reader.skip();
    }
    if (!file.types.length || !file.strings.length) fail('it has no sample types or no strings');
    if (file.types.length > MAX_TYPES) fail(`it has more than ${MAX_TYPES} sample types`);
    return file;
}

// Reads texts and finds what ids refer to. What is not in the file makes it unreadable, as for the command line: half a profile would
// look like a whole one.
const textOf = (file, i) => file.strings[i] ?? fail(`string ${i} of ${file.strings.length}`);

function byId(items, what, idOf) {
    const found = new Map();
    items.forEach((item, i) => {
        const id = idOf(item);
        if (!id || found.has(id)) fail(`${what} has the id ${id}${id ? ' of another one' : ''}`);
        found.set(id, i);
    });
    return (id) => found.get(id) ?? fail(`${what} ${id} is not in the file`);
}

// As api/profile/kind.c: pprof files do not store kinds of frames.
function guessKind(mapping, path, isProgram, address) {
    if (!mapping) return address ? KIND.UNKNOWN : KIND.NOTE;
    if (/^\[(guest\.)?kernel/.test(path)) return KIND.KERNEL;
    if (!path || (!mapping.build && /^(\[(jit|anon|heap|stack)|\/\/anon|\/memfd:|\/dev\/zero|\/SYSV|\/anon_hugepage)/.test(path))) return KIND.JIT;
    return isProgram && !/\.so(\.| |$)/.test(path) && path !== '[vdso]' ? KIND.APPLICATION : KIND.LIBRARY;
}

// The name of a location without lines, as api/draw/display_frames.c has it: the place in the file, or without a file the address.
function placeName(mapping, module, address) {
    if (!mapping) return address ? `0x${address.toString(16)}` : '[no name]';
    const place = BigInt.asUintN(64, BigInt(address) - BigInt(mapping.start) + BigInt(mapping.offset)), name = module || '[anon]';
    return `${name[0] === '[' ? name : `[${name}]`}+0x${place.toString(16)}`;
}

export const baseName = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

// Whether a function was inlined into one of its name and file: libc's system calls are such pairs, and one frame says all.
const repeats = (fn, caller) => Boolean(caller && fn.file && fn.name && fn.name === caller.name && fn.file === caller.file);

// The frames of all locations, outermost first: those of location i are fns[n] and lines[n] for n in first[i]..first[i + 1].
function resolve(file, profile) {
    const text = (i) => textOf(file, i), none = { path: '', build: '', isProgram: false, known: new Map() };
    const nameOf = (m) => baseName(text(m[5])); // that of the program has its other versions, too
    const mappings = file.mappings.map((m) => ({ path: text(m[5]), build: text(m[6]), start: m[2], offset: m[4], isProgram: nameOf(m) === nameOf(file.mappings[0]), known: new Map() }));
    const functions = file.functions.map((fn) => (text(fn[3]), { name: text(fn[2]), file: text(fn[4]) }));
    const mappingOf = byId(file.mappings, 'a mapping', (m) => m[1]), functionOf = byId(file.functions, 'a function', (fn) => fn[1]);
    const fns = [], lines = [], first = [0];
    for (const { numbers, lines: own } of file.locations) {
        const found = numbers[2] ? mappings[mappingOf(numbers[2])] : null, mapping = found ?? none, module = baseName(mapping.path), address = numbers[3];
        const kind = guessKind(found, mapping.path, mapping.isProgram, address);
        for (let i = own.length; i-- > 0;) {
            const at = functionOf(own[i][1]), key = at * 8 + kind, fn = functions[at];
            if (repeats(fn, functions[own[i + 1] && functionOf(own[i + 1][1])])) continue;
            if (!mapping.known.has(key)) mapping.known.set(key, profile.addFunction(fn.name, module, fn.file, kind));
            fns.push(mapping.known.get(key));
            lines.push(own[i][2]);
        }
        if (!own.length) {
            fns.push(profile.addFunction(placeName(found, module, address), module, '', kind));
            lines.push(0);
        }
        first.push(fns.length);
        profile.places.push({ build: mapping.build, start: mapping.start ?? 0, offset: mapping.offset ?? 0, address });
    }
    return { fns, lines, first, placeOf: byId(file.locations, 'a location', (location) => location.numbers[1]) };
}

// A deep stack keeps both ends. -1 is the note between them.
function cut(places) {
    const half = MAX_DEPTH / 2;
    return places.length <= MAX_DEPTH ? places : [...places.slice(0, half), -1, ...places.slice(places.length - half + 1)];
}

function pushFrames({ fns, lines, first }, profile, places) {
    for (let i = places.length; i-- > 0;) {
        if (places[i] < 0) {
            profile.frame.push(profile.addFunction(TRUNCATED, '', '', KIND.NOTE));
            profile.line.push(0);
            profile.at.push(-1);
            continue;
        }
        for (let n = first[places[i]]; n < first[places[i] + 1]; n++) {
            profile.frame.push(fns[n]);
            profile.line.push(lines[n]);
            profile.at.push(n === first[places[i]] ? places[i] : -1);
        }
    }
}

// Comments about samples that were shortened, in the words of the command line.
const cutNotes = (file) => [['locations', MAX_DEPTH, `the middle is ${TRUNCATED}`], ['labels', MAX_LABELS, 'the rest was dropped']].flatMap(([what, limit, how]) => {
    const count = file.samples.filter((sample) => sample[what].length > limit).length;
    return count ? [`${count} samples of the file have more than ${limit} ${what}: ${how}`] : [];
});

function addSamples(file, profile) {
    const frames = resolve(file, profile), text = (i) => textOf(file, i);
    for (const { locations, values, labels } of file.samples) {
        const read = labels.map(([, key, string, number, unit]) => (text(unit), { key: text(key), string: text(string), number })).slice(0, MAX_LABELS);
        const label = (key) => read.find((each) => each.key === key), isBase = label('pprof::base');
        if (values.length !== profile.types.length) fail(`a sample has ${values.length} values`);
        if (isBase) profile.side ??= new Array(profile.stackCount).fill(0);
        pushFrames(frames, profile, cut(locations.map(frames.placeOf)));
        profile.endStack(values, label('thread') ? profile.addThread(label('thread').string) : 0, label('tid')?.number ?? 0);
        profile.side?.push(isBase ? 1 : 0);
    }
}

async function unpack(bytes) {
    if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')).getReader(), parts = [];
    for (let size = 0; ;) {
        const { value } = await reader.read();
        if (!value) break;
        if ((size += value.length) > MAX_UNPACKED) throw new Error('the profile is larger than 512 MiB unpacked: use `sonde top` or `sonde draw`');
        parts.push(value);
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// The profile of a pprof file, gzipped or not. Throws an Error with a sentence if it is none.
export async function decode(bytes) {
    const file = readFile(await unpack(bytes).catch((error) => { throw new Error(/larger/.test(error.message) ? error.message : 'the gzip file is damaged or cut off'); }));
    const text = (i) => textOf(file, i), profile = new Profile(file.types.map((type) => ({ type: text(type[1]), unit: text(type[2]) })));
    profile.modules = file.mappings.map((mapping) => text(mapping[5]));
    addSamples(file, profile);
    Object.assign(profile, { comments: [...file.comments.map(text), ...cutNotes(file)], timeNanos: file.numbers[9] ?? 0, durationNanos: file.numbers[10] ?? 0, period: file.numbers[12] ?? 0,
        periodType: { type: text(file.period[1] ?? 0), unit: text(file.period[2] ?? 0) } });
    const wanted = profile.types.findIndex((type) => type.type === text(file.numbers[14] ?? 0));
    if (wanted >= 0) profile.defaultType = wanted;
    return profile;
}

// ---- Writing ----

class Writer {
    bytes = new Uint8Array(64);
    size = 0;

    put(bytes) {
        if (this.size + bytes.length > this.bytes.length) {
            const larger = new Uint8Array(2 * this.bytes.length + bytes.length);
            larger.set(this.bytes.subarray(0, this.size));
            this.bytes = larger;
        }
        this.bytes.set(bytes, this.size);
        this.size += bytes.length;
    }

    varint(value) {
        const out = [];
        let rest = value < 0 ? BigInt.asUintN(64, BigInt(Math.round(value))) : Math.round(value);
        for (; rest > 127; rest = typeof rest === 'bigint' ? rest >> 7n : Math.floor(rest / 128)) out.push(typeof rest === 'bigint' ? Number(rest & 127n) | 128 : rest % 128 | 128);
        out.push(Number(rest));
        this.put(out);
    }

    field(number, value) {
        if (!value) return;
        this.varint(number * 8);
        this.varint(value);
    }

    // A field of bytes: text, or what fill(writer) writes.
    nested(number, fill) {
        const inner = new Writer(), bytes = typeof fill === 'function' ? (fill(inner), inner.bytes.subarray(0, inner.size)) : new TextEncoder().encode(fill);
        this.varint(number * 8 + 2);
        this.varint(bytes.length);
        this.put(bytes);
    }

    message(number, fields) {
        this.nested(number, (inner) => Object.entries(fields).forEach(([field, value]) => inner.field(Number(field), value)));
    }
}

// Collects what samples refer to: strings, a mapping per module, a function and a location per frame.
class Tables {
    constructor(out) {
        Object.assign(this, { out, strings: new Map([['', 0]]), modules: new Map(), locations: new Map() });
        this.text = (string) => {
            if (!this.strings.has(string)) this.strings.set(string, this.strings.size);
            return this.strings.get(string);
        };
    }

    mapping(path) {
        if (path && !this.modules.has(path)) {
            const id = this.modules.size + 1;
            this.modules.set(path, id);
            this.out.message(3, { 1: id, 2: id * SPACING, 3: (id + 1) * SPACING, 5: this.text(path), 7: 1 });
        }
        return this.modules.get(path) ?? 0;
    }

    location(fn, functionId, line, path) {
        const key = functionId * SPACING + line, known = this.locations.get(key);
        if (known) return known;
        const id = this.locations.size + 1, mapping = fn.kind === KIND.NOTE || fn.kind === KIND.THREAD ? 0 : this.mapping(path), name = this.text(fn.name);
        this.locations.set(key, id);
        this.out.message(5, { 1: id, 2: name, 3: name, 4: this.text(fn.file) });
        this.out.nested(4, (inner) => {
            for (const [field, value] of [[1, id], [2, mapping], [3, mapping && mapping * SPACING + id]]) inner.field(field, value);
            inner.message(4, { 1: id, 2: line });
        });
        return id;
    }
}

function writeSample(inner, tables, profile, s, paths) {
    const ids = [], { text } = tables;
    for (let i = profile.start[s + 1]; i-- > profile.start[s];) {
        const fn = profile.functions[profile.frame[i]];
        ids.push(tables.location(fn, profile.frame[i], profile.line[i], paths.get(fn.module) ?? fn.module));
    }
    inner.nested(1, (packed) => ids.forEach((id) => packed.varint(id)));
    inner.nested(2, (packed) => profile.values.forEach((values) => packed.varint(values[s])));
    const thread = profile.threads[profile.thread[s]];
    if (thread) inner.message(3, { 1: text('thread'), 2: text(thread) });
    if (profile.tid[s]) inner.message(3, { 1: text('tid'), 3: profile.tid[s] });
    if (profile.side?.[s]) inner.message(3, { 1: text('pprof::base'), 2: text('true') });
}

// The pprof file of a profile, not compressed. The samples of a difference's base have the label pprof::base, as go tool pprof
// writes it with -diff_base.
export function encode(profile) {
    const out = new Writer(), tables = new Tables(out), { text } = tables, paths = new Map(profile.modules.map((path) => [baseName(path), path]));
    const program = profile.functions.find((fn) => fn.kind === KIND.APPLICATION), last = profile.types.at(-1);
    if (program) tables.mapping(paths.get(program.module) ?? program.module);
    for (const type of profile.types) out.message(1, { 1: text(type.type), 2: text(type.unit) });
    for (let s = 0; s < profile.stackCount; s++) out.nested(2, (inner) => writeSample(inner, tables, profile, s, paths));
    for (const comment of profile.comments) out.field(13, text(comment));
    for (const [field, value] of [[9, profile.timeNanos], [10, profile.durationNanos], [12, profile.period], [14, text(profile.types[profile.defaultType].type)]]) out.field(field, value);
    const sampled = profile.periodType ?? last;
    out.message(11, { 1: text(sampled.type), 2: text(sampled.unit) });
    for (const string of tables.strings.keys()) out.nested(6, string);
    return out.bytes.subarray(0, out.size);
}

export async function compress(bytes) {
    return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());
}
