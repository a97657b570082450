// SPDX-License-Identifier: Apache-2.0
// A profile in columns. Captures, history, heaps, threads, streams and dropped files all become one, so every view is drawn alike.
//
//   functions[f]           { name, file, module, kind }, without duplicates; after showNames also { shown }, the name in this view
//   start[s]..start[s+1]   the frames of stack s in `frame` (function) and `line`, outermost first
//   values[t][s]           the value of stack s in sample type t; thread[s] is an index in `threads`
//   at[i], places          of pprof files: the place { build, start, offset, address } of the frame that has the code; -1 = inlined there
//   side[s]                1 if stack s belongs to the base of a difference; null if there is none
//   counts[s]              of a difference: the number of samples of stack s; null if it is unknown
//   periodType, period     what was counted until the next sample was taken, and how much of it; null if it is unknown

import { viewNames } from './names.js';

export const KIND = { UNKNOWN: 0, APPLICATION: 1, LIBRARY: 2, KERNEL: 3, JIT: 4, NOTE: 5, THREAD: 6 };

export class Profile {
    constructor(types) {
        Object.assign(this, { types, defaultType: types.length - 1, comments: [], timeNanos: 0, durationNanos: 0, period: 0, periodType: null });
        Object.assign(this, { functions: [], threads: [''], start: [0], frame: [], line: [], thread: [], tid: [], at: [], places: [], side: null, counts: null });
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

    // Names all functions for a view. Functions that are added later change the names of others only if they would look equal.
    showNames() {
        if (this.namedCount === this.functions.length) return;
        this.namedCount = this.functions.length;
        viewNames(this.functions.map((fn) => fn.name)).forEach((shown, i) => { this.functions[i].shown = this.functions[i].kind === KIND.THREAD ? this.functions[i].name : shown; });
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
export const plainName = (name) => name.replace(/::h[0-9a-f]{16}$/, '').replace(/( \[clone |\.isra\.|\.constprop\.|\.part\.|\.cold|\.llvm\.|\.lto_priv\.).*$/, '') || name;

// Both profiles in one, the base's stacks with side 1. Functions match by name and by the role of their file.
export function join(now, base, nowType, baseType) {
    const both = new Profile([now.types[nowType]]), ids = new Map();
    const counted = [now, base].map((profile) => profile.types.findIndex(({ type, unit }) => type === 'samples' && unit === 'count'));
    both.side = [];
    both.counts = counted.includes(-1) ? null : [];
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
            both.counts?.push(profile.values[counted[side]][s]);
        }
    }
    Object.assign(both, { changed: base.changed ?? null, comments: now.comments, timeNanos: now.timeNanos, durationNanos: now.durationNanos, modules: now.modules, period: now.period, periodType: now.periodType });
    return both;
}

const typeList = (types) => types.map(({ type, unit }) => `${type} (${unit})`).join(', ');

const isSame = (a, b) => a.type === b.type && a.unit === b.unit;

// Why values of a type of both cannot be compared, or '': numbers of samples depend on the rate, the measured time does not.
export function rateRefusal(base, now, type) {
    const [a, b] = [base.periodType, now.periodType];
    if (!a || !b || base.period === now.period || isSame(type, b) || (a.unit === 'bytes' && b.unit === 'bytes')) return '';
    return `the profiles were sampled at different rates: one sample per ${base.period} and per ${now.period} ${a.unit}`;
}

// The index in both of a type that both have, `now`'s default type if possible, or a sentence that says why they cannot be compared, as in
// api/profile/diff/checks.c.
export function comparableTypes(base, now) {
    const find = (wanted) => base.types.findIndex((one) => isSame(one, wanted)), [a, b] = [base.periodType, now.periodType];
    const nowType = [now.defaultType, ...now.types.keys()].find((t) => find(now.types[t]) >= 0);
    if (nowType === undefined) return { refusal: `the profiles measure different things: ${typeList(base.types)}; and ${typeList(now.types)}` };
    if (a && b && !isSame(a, b)) {
        return { refusal: `the profiles measure different things: they were sampled by different events, "${a.type}" and "${b.type}"` };
    }
    return { nowType, baseType: find(now.types[nowType]), refusal: rateRefusal(base, now, now.types[nowType]) };
}

// ---- Which changes of shares chance explains, as in api/profile/verdict/verdict.h for one block a side ----

const Z = 1.959963985, LEVEL = 0.05, PRIOR_SAMPLES = 10, LARGEST_Z = 1e4;

// The probability of a value outside -z to z of the normal distribution: erfc(z / √2), by its series or its continued fraction.
function tail(z) {
    const x = z / Math.SQRT2;
    let sum = 0;
    if (x < 2.5) {
        for (let k = 0, term = x; k < 60; k++, term *= -x * x / k) sum += term / (2 * k + 1);
        return 1 - 2 / Math.sqrt(Math.PI) * sum;
    }
    for (let k = 60; k > 0; k--) sum = k / 2 / (x + sum);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + sum);
}

// One side: its share, the number of samples, and how many samples of equal weight the total is worth. typical: value of a sample.
function estimate(value, squares, total, totalSquares, typical) {
    const perSample = (squares + PRIOR_SAMPLES * typical * typical) / (value + PRIOR_SAMPLES * typical);
    const share = value / total, inside = value * perSample, outside = Math.max(0, totalSquares - inside);
    const variance = ((1 - share) ** 2 * inside + share * share * outside) / (total * total), isBetween = share > 0 && share < 1 && variance > 0;
    return { share, count: value / perSample, effective: isBetween ? share * (1 - share) / variance : total * total / totalSquares };
}

function wilson({ share, effective }, z) {
    const part = z * z / effective, half = Math.sqrt(part * (share * (1 - share) + part / 4));
    return [(share + part / 2 - half) / (1 + part), (share + part / 2 + half) / (1 + part)];
}

function interval(base, now, z) {
    const [baseLow, baseHigh] = wilson(base, z), [low, high] = wilson(now, z), change = now.share - base.share;
    return { change, low: change - Math.hypot(now.share - low, baseHigh - base.share), high: change + Math.hypot(high - now.share, base.share - baseLow) };
}

// The probability of the z whose interval just touches 0.
function chance(base, now, change) {
    let low = 0, high = LARGEST_Z;
    for (let i = 0; i < 50; i++) {
        const middle = (low + high) / 2, at = interval(base, now, middle);
        if (change > 0 ? at.low > 0 : at.high < 0) low = middle;
        else high = middle;
    }
    return tail(low);
}

// By Benjamini and Hochberg; -1 = nothing is a discovery.
function threshold(chances) {
    const sorted = Float64Array.from(chances).sort();
    for (let i = sorted.length; i > 0; i--) if (sorted[i - 1] <= LEVEL * i / sorted.length) return sorted[i - 1];
    return -1;
}

// By row, the first of which is the root: { change, low, high, verdict }, where verdict is 1 for more, -1 for less and 0 for noise.
function judgeRows({ total, baseTotal, squares, baseSquares }) {
    const typical = (squares[0] + baseSquares[0]) / (total[0] + baseTotal[0]), tested = [];
    const changes = Array.from(total, (value, n) => {
        const base = estimate(baseTotal[n], baseSquares[n], baseTotal[0], baseSquares[0], typical), now = estimate(value, squares[n], total[0], squares[0], typical);
        const one = interval(base, now, Z), canBeSeen = 2 * 2 ** -(base.count + now.count) <= LEVEL;
        one.p = canBeSeen && one.low * one.high > 0 ? chance(base, now, one.change) : 1;
        if (canBeSeen) tested.push(one.p);
        return one;
    });
    const largest = threshold(tested);
    for (const one of changes) one.verdict = one.p < 1 && one.p <= largest ? Math.sign(one.change) : 0;
    return changes;
}

// Of all nodes, or of the rows of functionTable. null if numbers of samples are unknown, or one side has none. Where the service has compared
// the parts of each side's time (profile.changed: names), the others are noise: work in bursts differs by more than its samples say.
export function judge(tree, rows = null) {
    if (!tree.squares || !(tree.total[0] > 0 && tree.baseTotal[0] > 0)) return null;
    const column = (key) => [tree[key][0], ...rows.map((row) => row[key])], keys = ['total', 'baseTotal', 'squares', 'baseSquares'];
    const changes = rows ? judgeRows(Object.fromEntries(keys.map((key) => [key, column(key)]))).slice(1) : judgeRows(tree), { changed, functions } = tree.profile;
    const isNoise = (fn) => fn && fn.kind !== KIND.THREAD && !changed.has(plainName(fn.name));
    if (changed) changes.forEach((one, n) => { if (isNoise(functions[rows ? rows[n].fn : tree.fn[n]])) one.verdict = 0; });
    return changes;
}

// "+3.1 % ± 0.6"
export function changeText({ change, low, high }) {
    const half = 50 * (high - low), digits = half < 0.095 ? 2 : 1;
    return `${change >= 0 ? '+' : ''}${(100 * change).toFixed(digits)} % ± ${half.toFixed(digits)}`;
}

// The nearer end of the interval to 0.
export const certain = ({ verdict, low, high }) => (verdict > 0 ? low : verdict < 0 ? high : 0);

// What a function of half the total must change by to be seen.
export function leastChange(tree) {
    const half = (total, squares) => ({ share: 0.5, effective: total * total / squares });
    const { low, high } = interval(half(tree.baseTotal[0], tree.baseSquares[0]), half(tree.total[0], tree.squares[0]), Z);
    return (high - low) / 2;
}
