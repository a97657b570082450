// SPDX-License-Identifier: Apache-2.0
// Reads and writes pprof files (github.com/google/pprof, proto/profile.proto). Dropped files may be anything: every length is checked,
// and what is unpacked is bounded.
import { KIND, Profile } from './profile.js';

const fail = (why) => { throw new Error(why ? `not a pprof profile: ${why}` : 'the profile is cut off'); };

const MAX_UNPACKED = 512 << 20, MAX_DEPTH = 4096, SPACING = 2 ** 24;

// `end` is the end of the innermost message that is being read.
class Reader {
    constructor(bytes) {
        Object.assign(this, { bytes, at: 0, end: bytes.length });
    }

    // Numbers above 2^53 lose their last bits, which only addresses have.
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
        if (this.at - start < 10) return value;
        let exact = 0n;
        for (let i = this.at - 1; i >= start; i--) exact = exact << 7n | BigInt(this.bytes[i] & 127);
        return Number(BigInt.asIntN(64, exact));
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

    // A repeated number, packed or not.
    numbers(into) {
        if (this.type === 0) return into.push(this.signed());
        if (this.type !== 2) return this.skip();
        const outer = this.enter();
        while (this.at < this.end) into.push(this.signed());
        this.leave(outer);
    }

    // A message of numbers: its fields by number.
    message() {
        const result = [0, 0, 0, 0, 0, 0, 0], outer = this.enter();
        for (let field; (field = this.next());) {
            if (this.type === 0 && field < 7) result[field] = this.signed();
            else this.skip();
        }
        this.leave(outer);
        return result;
    }
}

function readLocation(reader) {
    const location = { numbers: [0, 0, 0, 0], lines: [] }, outer = reader.enter();
    for (let field; (field = reader.next());) {
        if (field === 4 && reader.type === 2) location.lines.push(reader.message());
        else if (reader.type === 0 && field < 4) location.numbers[field] = reader.varint();
        else reader.skip();
    }
    reader.leave(outer);
    return location;
}

function readSample(reader) {
    const sample = { locations: [], values: [], labels: [] }, outer = reader.enter();
    for (let field; (field = reader.next());) {
        if (field === 1) reader.numbers(sample.locations);
        else if (field === 2) reader.numbers(sample.values);
        else if (field === 3 && reader.type === 2) sample.labels.push(reader.message());
        else reader.skip();
    }
    reader.leave(outer);
    return sample;
}

function readFile(bytes) {
    const reader = new Reader(bytes), decoder = new TextDecoder(), latin = new TextDecoder('latin1').decode(bytes);
    const file = { types: [], samples: [], mappings: [], locations: [], functions: [], strings: [], comments: [], numbers: {} };
    const message = () => reader.message(), string = () => {
        const outer = reader.enter(), start = reader.at, text = latin.slice(start, reader.end);
        reader.leave(outer);
        return /^[\0-\x7f]*$/.test(text) ? text : decoder.decode(bytes.subarray(start, reader.at));
    };
    const lists = [null, [file.types, message], [file.samples, readSample], [file.mappings, message], [file.locations, readLocation], [file.functions, message],
        [file.strings, string]];
    for (let field; (field = reader.next());) {
        if (lists[field] && reader.type === 2) lists[field][0].push(lists[field][1](reader));
        else if (field === 13) reader.numbers(file.comments);
        else if (reader.type === 0) file.numbers[field] = reader.signed();
        else reader.skip();
    }
    if (!file.types.length) fail('it has no sample types');
    return file;
}

// As api/profile/kind.c: pprof files do not store kinds of frames.
function guessKind(mapping, path, isFirst, address) {
    if (!mapping) return address ? KIND.UNKNOWN : KIND.NOTE;
    if (/^\[(guest\.)?kernel/.test(path)) return KIND.KERNEL;
    if (!path || (!mapping.build && /^(\[(jit|anon|heap|stack)|\/\/anon|\/memfd:|\/dev\/zero|\/SYSV|\/anon_hugepage)/.test(path))) return KIND.JIT;
    return isFirst && !/\.so(\.| |$)/.test(path) && path !== '[vdso]' ? KIND.APPLICATION : KIND.LIBRARY;
}

const baseName = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

// The frames of all locations, outermost first: those of location i are fns[n] and lines[n] for n in first[i]..first[i + 1].
function resolve(file, profile) {
    const text = (i) => file.strings[i] ?? '', functions = new Map(file.functions.map((fn) => [fn[1], fn])), none = { path: '', build: 0, isFirst: false, known: new Map() };
    const mappings = new Map(file.mappings.map((m, i) => [m[1], { path: text(m[5]), build: m[6], isFirst: i === 0, known: new Map() }]));
    const fns = [], lines = [], first = [0];
    for (const { numbers, lines: own } of file.locations) {
        const found = mappings.get(numbers[2]), mapping = found ?? none, module = baseName(mapping.path), address = numbers[3];
        const kind = guessKind(found, mapping.path, mapping.isFirst, address);
        for (let i = own.length; i-- > 0;) {
            const line = own[i], id = line[1], key = id * 8 + kind;
            if (!mapping.known.has(key)) {
                const fn = functions.get(id);
                mapping.known.set(key, profile.addFunction(fn ? text(fn[2]) : '?', module, fn ? text(fn[4]) : '', kind));
            }
            fns.push(mapping.known.get(key));
            lines.push(line[2]);
        }
        if (!own.length) {
            fns.push(profile.addFunction(`[${module}]+0x${address.toString(16)}`, module, '', kind));
            lines.push(0);
        }
        first.push(fns.length);
    }
    return { fns, lines, first, index: new Map(file.locations.map((location, i) => [location.numbers[1], i])) };
}

function addSamples(file, profile) {
    const { fns, lines, first, index } = resolve(file, profile), text = (i) => file.strings[i] ?? '', { frame, line } = profile;
    for (const { locations, values, labels } of file.samples) {
        const label = (key) => labels.find((each) => text(each[1]) === key), name = label('thread'), tid = label('tid'), isBase = label('pprof::base');
        if (isBase) profile.side ??= new Array(profile.stackCount).fill(0);
        for (let i = Math.min(locations.length, MAX_DEPTH); i-- > 0;) {
            const at = index.get(locations[i]);
            for (let n = first[at]; n < first[at + 1]; n++) {
                frame.push(fns[n]);
                line.push(lines[n]);
            }
        }
        profile.endStack(profile.types.map((_, t) => values[t] ?? 0), name ? profile.addThread(text(name[2])) : 0, tid?.[3] ?? 0);
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
    const text = (i) => file.strings[i] ?? '', profile = new Profile(file.types.map((type) => ({ type: text(type[1]), unit: text(type[2]) })));
    profile.modules = file.mappings.map((mapping) => text(mapping[5]));
    addSamples(file, profile);
    Object.assign(profile, { comments: file.comments.map(text), timeNanos: file.numbers[9] ?? 0, durationNanos: file.numbers[10] ?? 0, period: file.numbers[12] ?? 0 });
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
    out.message(11, { 1: text(last.type), 2: text(last.unit) });
    for (const string of tables.strings.keys()) out.nested(6, string);
    return out.bytes.subarray(0, out.size);
}

export async function compress(bytes) {
    return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());
}
