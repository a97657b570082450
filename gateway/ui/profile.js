// SPDX-License-Identifier: Apache-2.0
// A profile in columns. Captures, history, heaps, threads, streams and dropped files all become one, so every view is drawn alike.
//
//   functions[f]           { name, file, module, kind }, without duplicates
//   start[s]..start[s+1]   the frames of stack s in `frame` (function) and `line`, outermost first
//   values[t][s]           the value of stack s in sample type t; thread[s] is an index in `threads`
//   side[s]                1 if stack s belongs to the base of a difference; null if there is none

export const KIND = { UNKNOWN: 0, APPLICATION: 1, LIBRARY: 2, KERNEL: 3, JIT: 4, NOTE: 5, THREAD: 6 };

export class Profile {
    constructor(types) {
        Object.assign(this, { types, defaultType: types.length - 1, comments: [], timeNanos: 0, durationNanos: 0, period: 0 });
        Object.assign(this, { functions: [], threads: [''], start: [0], frame: [], line: [], thread: [], tid: [], side: null });
        this.values = types.map(() => []);
        this.modules = []; // paths, the program's first
        this.index = new Map();
    }

    get stackCount() {
        return this.start.length - 1;
    }

    // The number of a function, which is entered if it is new.
    addFunction(name, module, file, kind) {
        const key = `${kind}\0${module}\0${name}`;
        let id = this.index.get(key);
        if (id === undefined) {
            id = this.functions.push({ name, module, file, kind }) - 1;
            this.index.set(key, id);
        }
        return id;
    }

    // Ends the stack whose frames were pushed to `frame` and `line`.
    endStack(values, thread = 0, tid = 0) {
        this.start.push(this.frame.length);
        this.thread.push(thread);
        this.tid.push(tid);
        for (let t = 0; t < values.length; t++) this.values[t].push(values[t]);
    }

    addThread(name) {
        const at = this.threads.indexOf(name);
        return at < 0 ? this.threads.push(name) - 1 : at;
    }

    total(type, side = 0) {
        let sum = 0;
        for (let s = 0; s < this.stackCount; s++) if (!this.side || this.side[s] === side) sum += this.values[type][s];
        return sum;
    }
}

// "libssl" for libssl.so.3 and libssl-1.1.so, so that two versions of a library match. The program is "", whatever its name.
export function role(fn) {
    if (fn.kind === KIND.APPLICATION) return '';
    if (fn.kind === KIND.KERNEL) return '[kernel]';
    return fn.module.replace(/\.so(\.[\d.]*)?( \(deleted\))?$/, '').replace(/-[\d.]+$/, '');
}

// Functions of two builds of a program: without Rust's hash and the compiler's clones.
const plainName = (name) => name.replace(/::h[0-9a-f]{16}$/, '').replace(/( \[clone |\.isra\.|\.constprop\.|\.part\.|\.cold|\.llvm\.|\.lto_priv\.).*$/, '') || name;

// Both profiles in one, the base's stacks with side 1. Functions match by name and by the role of their file.
export function join(now, base, nowType, baseType) {
    const both = new Profile([now.types[nowType]]), ids = new Map();
    both.side = [];
    for (const [profile, side, type] of [[now, 0, nowType], [base, 1, baseType]]) {
        const map = profile.functions.map((fn) => {
            const key = `${role(fn)}\0${plainName(fn.name)}`;
            if (!ids.has(key)) ids.set(key, both.addFunction(fn.name, fn.module, fn.file, fn.kind));
            return ids.get(key);
        });
        for (let s = 0; s < profile.stackCount; s++) {
            for (let i = profile.start[s]; i < profile.start[s + 1]; i++) {
                both.frame.push(map[profile.frame[i]]);
                both.line.push(profile.line[i]);
            }
            both.endStack([profile.values[type][s]], both.addThread(profile.threads[profile.thread[s]]), profile.tid[s]);
            both.side.push(side);
        }
    }
    Object.assign(both, { comments: now.comments, timeNanos: now.timeNanos, durationNanos: now.durationNanos, modules: now.modules });
    return both;
}
