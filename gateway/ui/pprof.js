// SPDX-License-Identifier: Apache-2.0
// Reads and writes pprof files (github.com/google/pprof, proto/profile.proto). Dropped files may be anything: every length is checked,
// and what is unpacked is bounded.
import { KIND, Profile } from './profile.js';

const MAX_UNPACKED = 512 << 20, MAX_DEPTH = 4096;

class Reader {
    constructor(bytes, at = 0, end = bytes.length) {
        Object.assign(this, { bytes, at, end });
    }

    // Numbers above 2^53 lose their last bits, which only addresses have.
    varint() {
        let value = 0, scale = 1;
        for (let i = 0; i < 10; i++) {
            if (this.at >= this.end) throw new Error('the profile is cut off');
            const byte = this.bytes[this.at++];
            value += (byte & 127) * scale;
            if (byte < 128) return value;
            scale *= 128;
        }
        throw new Error('not a pprof profile: a number is too long');
    }

    signed() {
        const start = this.at, value = this.varint();
        return this.at - start === 10 ? this.exact(start) : value;
    }

    exact(start) {
        let value = 0n;
        for (let i = this.at - 1; i >= start; i--) value = value << 7n | BigInt(this.bytes[i] & 127);
        return Number(BigInt.asIntN(64, value));
    }

    nested() {
        const size = this.varint(), at = this.at;
        if (size > this.end - at) throw new Error('the profile is cut off');
        this.at += size;
        return new Reader(this.bytes, at, at + size);
    }

    // Calls visit(field, type) for each field; what it does not read is skipped.
    fields(visit) {
        while (this.at < this.end) {
            const tag = this.varint(), type = tag % 8, before = this.at;
            visit(Math.floor(tag / 8), type);
            if (this.at !== before || type === 7) continue;
            if (type === 0) this.varint();
            else if (type === 2) this.nested();
            else if (type === 1 || type === 5) this.at += type === 1 ? 8 : 4;
            else throw new Error('not a pprof profile: an unknown wire type');
        }
        if (this.at > this.end) throw new Error('the profile is cut off');
    }

    // A repeated number, packed or not.
    numbers(into, type) {
        if (type === 0) into.push(this.signed());
        else if (type === 2) for (const packed = this.nested(); packed.at < packed.end;) into.push(packed.signed());
        return into;
    }

    // A message of numbers, as an object by the names given: { 1: 'id' }. Names that end in [] are repeated.
    message(names) {
        const result = {}, inner = this.nested();
        for (const name of Object.values(names)) result[name.replace('[]', '')] = name.endsWith('[]') ? [] : 0;
        inner.fields((field, type) => {
            const name = names[field];
            if (!name) return;
            if (name.endsWith('[]')) inner.numbers(result[name.slice(0, -2)], type);
            else if (type === 0) result[name] = inner.signed();
        });
        return result;
    }
}

const LINE = { 1: 'function', 2: 'line' }, LABEL = { 1: 'key', 2: 'str', 3: 'num' };
const FUNCTION = { 1: 'id', 2: 'name', 4: 'file' }, MAPPING = { 1: 'id', 5: 'file', 6: 'build' }, TYPE = { 1: 'type', 2: 'unit' };

function readLocation(reader) {
    const inner = reader.nested(), location = { id: 0, mapping: 0, address: 0, lines: [] };
    inner.fields((field, type) => {
        if (field === 4 && type === 2) location.lines.push(inner.message(LINE));
        else if (type === 0 && field < 4) location[['id', 'mapping', 'address'][field - 1]] = inner.varint();
    });
    return location;
}

function readSample(reader) {
    const inner = reader.nested(), sample = { locations: [], values: [], labels: [] };
    inner.fields((field, type) => {
        if (field === 1) inner.numbers(sample.locations, type);
        else if (field === 2) inner.numbers(sample.values, type);
        else if (field === 3 && type === 2) sample.labels.push(inner.message(LABEL));
    });
    return sample;
}

function readFile(bytes) {
    const reader = new Reader(bytes), decoder = new TextDecoder();
    const file = { types: [], samples: [], mappings: [], locations: [], functions: [], strings: [], comments: [], numbers: {} };
    const lists = { 1: [file.types, (r) => r.message(TYPE)], 2: [file.samples, readSample], 3: [file.mappings, (r) => r.message(MAPPING)],
        4: [file.locations, readLocation], 5: [file.functions, (r) => r.message(FUNCTION)],
        6: [file.strings, (r) => { const text = r.nested(); return decoder.decode(bytes.subarray(text.at, text.end)); }] };
    reader.fields((field, type) => {
        if (lists[field] && type === 2) lists[field][0].push(lists[field][1](reader));
        else if (field === 13) reader.numbers(file.comments, type);
        else if (type === 0 && [9, 10, 12, 14].includes(field)) file.numbers[field] = reader.signed();
    });
    if (!file.types.length) throw new Error('not a pprof profile: it has no sample types');
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

// The functions and lines of each location, outermost first.
function resolve(file, profile) {
    const text = (i) => file.strings[i] ?? '', mappings = new Map(file.mappings.map((m, i) => [m.id, { ...m, isFirst: i === 0 }]));
    const functions = new Map(file.functions.map((fn) => [fn.id, fn])), result = new Map();
    for (const location of file.locations) {
        const mapping = mappings.get(location.mapping), path = mapping ? text(mapping.file) : '', module = baseName(path);
        const kind = guessKind(mapping, path, mapping?.isFirst, location.address), frames = [];
        for (const line of location.lines) {
            const fn = functions.get(line.function);
            frames.unshift([profile.addFunction(fn ? text(fn.name) : '?', module, fn ? text(fn.file) : '', kind), line.line]);
        }
        if (!frames.length) frames.push([profile.addFunction(`[${module}]+0x${location.address.toString(16)}`, module, '', kind), 0]);
        result.set(location.id, frames);
    }
    return result;
}

function addSamples(file, profile) {
    const locations = resolve(file, profile), text = (i) => file.strings[i] ?? '';
    for (const sample of file.samples) {
        const label = (key) => sample.labels.find((one) => text(one.key) === key);
        const name = label('thread'), tid = label('tid'), isBase = label('pprof::base');
        if (isBase) profile.side ??= new Array(profile.stackCount).fill(0);
        for (let i = Math.min(sample.locations.length, MAX_DEPTH) - 1; i >= 0; i--) {
            for (const [fn, line] of locations.get(sample.locations[i]) ?? []) {
                profile.frame.push(fn);
                profile.line.push(line);
            }
        }
        profile.endStack(profile.types.map((_, t) => sample.values[t] ?? 0), name ? profile.addThread(text(name.str)) : 0, tid?.num ?? 0);
        profile.side?.push(isBase ? 1 : 0);
    }
}

async function unpack(bytes) {
    if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')).getReader(), parts = [];
    for (let size = 0; ;) {
        const { done, value } = await reader.read();
        if (done) break;
        if ((size += value.length) > MAX_UNPACKED) throw new Error('the profile is larger than 512 MiB unpacked: use `sonde top` or `sonde draw`');
        parts.push(value);
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// The profile of a pprof file, gzipped or not. Throws an Error with a sentence if it is none.
export async function decode(bytes) {
    const file = readFile(await unpack(bytes).catch((error) => { throw new Error(/larger/.test(error.message) ? error.message : 'the gzip file is damaged or cut off'); }));
    const text = (i) => file.strings[i] ?? '', profile = new Profile(file.types.map((type) => ({ type: text(type.type), unit: text(type.unit) })));
    profile.modules = file.mappings.map((mapping) => text(mapping.file));
    addSamples(file, profile);
    Object.assign(profile, { comments: file.comments.map(text), timeNanos: file.numbers[9] ?? 0, durationNanos: file.numbers[10] ?? 0, period: file.numbers[12] ?? 0 });
    const wanted = profile.types.findIndex((type) => type.type === text(file.numbers[14] ?? 0));
    if (wanted >= 0) profile.defaultType = wanted;
    return profile;
}

// ---- Writing ----

class Writer {
    constructor() {
        this.bytes = new Uint8Array(1 << 16);
        this.size = 0;
    }

    put(bytes) {
        if (this.size + bytes.length > this.bytes.length) {
            const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.size + bytes.length));
            larger.set(this.bytes.subarray(0, this.size));
            this.bytes = larger;
        }
        this.bytes.set(bytes, this.size);
        this.size += bytes.length;
    }

    varint(value) {
        const bytes = [];
        let rest = value < 0 ? BigInt.asUintN(64, BigInt(Math.round(value))) : BigInt(Math.round(value));
        for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
        this.put([...bytes, Number(rest)]);
    }

    field(number, value) {
        if (!value) return;
        this.varint(number * 8);
        this.varint(value);
    }

    bytesField(number, bytes) {
        this.varint(number * 8 + 2);
        this.varint(bytes.length);
        this.put(bytes);
    }

    packed(number, values) {
        const inner = new Writer();
        for (const value of values) inner.varint(value);
        this.bytesField(number, inner.done());
    }

    message(number, fields) {
        const inner = new Writer();
        for (const [field, value] of Object.entries(fields)) inner.field(Number(field), value);
        this.bytesField(number, inner.done());
    }

    done() {
        return this.bytes.subarray(0, this.size);
    }
}

// Collects what samples refer to: strings, a mapping per module, a function and a location per frame.
class Tables {
    constructor(out) {
        Object.assign(this, { out, strings: new Map([['', 0]]), modules: new Map(), locations: new Map() });
    }

    text(string) {
        if (!this.strings.has(string)) this.strings.set(string, this.strings.size);
        return this.strings.get(string);
    }

    mapping(path) {
        if (path && !this.modules.has(path)) {
            this.modules.set(path, this.modules.size + 1);
            this.out.message(3, { 1: this.modules.size, 2: this.modules.size << 24, 3: (this.modules.size + 1) << 24, 5: this.text(path), 7: 1 });
        }
        return this.modules.get(path) ?? 0;
    }

    location(fn, functionId, line, path) {
        const key = functionId * 2 ** 24 + line;
        if (this.locations.has(key)) return this.locations.get(key);
        const id = this.locations.size + 1, inner = new Writer(), isNote = fn.kind === KIND.NOTE || fn.kind === KIND.THREAD;
        this.locations.set(key, id);
        this.out.message(5, { 1: id, 2: this.text(fn.name), 3: this.text(fn.name), 4: this.text(fn.file) });
        const mapping = isNote ? 0 : this.mapping(path);
        inner.field(1, id);
        inner.field(2, mapping);
        inner.field(3, isNote ? 0 : (mapping << 24) + id);
        inner.message(4, { 1: id, 2: line });
        this.out.bytesField(4, inner.done());
        return id;
    }
}

function writeSample(out, tables, profile, s, values, paths) {
    const inner = new Writer(), ids = [];
    for (let i = profile.start[s + 1] - 1; i >= profile.start[s]; i--) {
        const fn = profile.functions[profile.frame[i]];
        ids.push(tables.location(fn, profile.frame[i], profile.line[i], paths.get(fn.module) ?? fn.module));
    }
    inner.packed(1, ids);
    inner.packed(2, values);
    const thread = profile.threads[profile.thread[s]];
    if (thread) inner.message(3, { 1: tables.text('thread'), 2: tables.text(thread) });
    if (profile.tid[s]) inner.message(3, { 1: tables.text('tid'), 3: profile.tid[s] });
    if (profile.side?.[s]) inner.message(3, { 1: tables.text('pprof::base'), 2: tables.text('true') });
    out.bytesField(2, inner.done());
}

// The pprof file of a profile, not compressed. The samples of a difference's base have the label pprof::base, as go tool pprof
// writes it with -diff_base.
export function encode(profile) {
    const out = new Writer(), tables = new Tables(out), encoder = new TextEncoder();
    const paths = new Map(profile.modules.map((path) => [baseName(path), path]));
    for (const type of profile.types) out.message(1, { 1: tables.text(type.type), 2: tables.text(type.unit) });
    const program = profile.functions.find((fn) => fn.kind === KIND.APPLICATION);
    if (program) tables.mapping(paths.get(program.module) ?? program.module);
    for (let s = 0; s < profile.stackCount; s++) writeSample(out, tables, profile, s, profile.values.map((values) => values[s]), paths);
    out.field(9, profile.timeNanos);
    out.field(10, profile.durationNanos);
    out.message(11, { 1: tables.text(profile.types.at(-1).type), 2: tables.text(profile.types.at(-1).unit) });
    out.field(12, profile.period);
    for (const comment of profile.comments) out.field(13, tables.text(comment));
    out.field(14, tables.text(profile.types[profile.defaultType].type));
    for (const string of tables.strings.keys()) out.bytesField(6, encoder.encode(string));
    return out.done();
}

export async function compress(bytes) {
    return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());
}
