// SPDX-License-Identifier: Apache-2.0
// The call tree of a profile. Its nodes are numbered depth first, and siblings are sorted by value, so a subtree is the range
// n..end[n], and a reader who finds a node too narrow to draw can skip the rest of its siblings.
import { KIND } from './profile.js';

const ROOT = -1, IDLE = 0.9;

export const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

// A search as a regular expression; text that is not a valid one is searched as it is. null for "".
export function searchRegex(text, matchCase = false) {
    if (!text) return null;
    try {
        return new RegExp(text, matchCase ? '' : 'i');
    } catch {
        return new RegExp(literal(text), matchCase ? '' : 'i');
    }
}

// What the legend calls the file of a function.
export const moduleName = ({ kind, module }) => (kind === KIND.KERNEL ? 'kernel' : kind === KIND.NOTE ? 'notes' : module || (kind === KIND.JIT ? 'JIT code' : 'no module'));

export const matchesOf = (profile, regex) => profile.functions.map((fn) => regex !== null && (regex.test(fn.name) || regex.test(fn.shown ?? fn.name)));

// Which frames of a stack are drawn, outermost first:
//   focus    only stacks that contain this function (a regular expression)
//   hide     leaves functions out
//   inverted leaf first
//   threads  a level of threads at the root
//   only     which stacks are drawn, by number: a function
//   below    only frames from the outermost call of this function on; above: its callers, nearest first
export function stackPaths(profile, { focus, hide, inverted, threads, only: isIn, below, above } = {}) {
    const hidden = hide ? matchesOf(profile, hide) : null, wanted = focus ? matchesOf(profile, focus) : null;
    const threadIds = threads ? profile.threads.map((name) => profile.addFunction(name || 'main thread', '', '', KIND.THREAD)) : null;
    const only = below ?? above;
    return (s, path) => {
        let length = 0, from = profile.start[s], end = profile.start[s + 1];
        if (isIn && !isIn(s)) return -1;
        if (wanted && !profile.frame.slice(from, end).some((fn) => wanted[fn])) return -1;
        if (only !== undefined) {
            const at = profile.frame.indexOf(only, from);
            if (at < 0 || at >= end) return -1;
            if (below === undefined) end = at + 1;
            else from = at;
        }
        if (threads) path[length++] = -1 - threadIds[profile.thread[s]];
        const start = length;
        for (let i = from; i < end; i++) if (!hidden || !hidden[profile.frame[i]]) path[length++] = i;
        if (inverted || above !== undefined) reverse(path, start, length);
        return length;
    };
}

function reverse(path, start, end) {
    for (let a = start, b = end - 1; a < b; a++, b--) [path[a], path[b]] = [path[b], path[a]];
}

// A graph cannot show less than nothing, so negative values count as 0, as in pictures of the service. A difference has a base instead.
export const isDrawn = (profile, type, s) => profile.values[type][s] > 0 || (profile.side && profile.values[type][s] !== 0);

// The nodes in the order in which stacks reach them, heaviest stacks first, so that a node has the line of its heaviest stack.
function grow(profile, type, paths) {
    const raw = { parent: [ROOT], fn: [ROOT], line: [0], self: [0], base: [0], squares: [0], baseSquares: [0] }, index = new Map(), path = [], values = profile.values[type];
    const order = Array.from({ length: profile.stackCount }, (_, s) => s).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
    for (const s of order) {
        const length = isDrawn(profile, type, s) ? paths(s, path) : -1;
        if (length < 0) continue;
        let node = 0;
        for (let i = 0; i < length; i++) {
            const fn = path[i] < 0 ? -1 - path[i] : profile.frame[path[i]], key = node * profile.functions.length + fn;
            let child = index.get(key);
            if (child === undefined) {
                child = raw.parent.push(node) - 1;
                raw.fn.push(fn);
                raw.line.push(path[i] < 0 ? 0 : profile.line[path[i]]);
                raw.self.push(0);
                raw.base.push(0);
                raw.squares.push(0);
                raw.baseSquares.push(0);
                index.set(key, child);
            }
            node = child;
        }
        (profile.side?.[s] ? raw.base : raw.self)[node] += values[s];
        if (profile.counts?.[s] > 0) (profile.side[s] ? raw.baseSquares : raw.squares)[node] += values[s] * values[s] / profile.counts[s];
    }
    return raw;
}

// Children come after their parents in `raw`, so sums run backwards.
function sumUp(raw) {
    const count = raw.parent.length, total = Float64Array.from(raw.self), baseTotal = Float64Array.from(raw.base);
    const squares = Float64Array.from(raw.squares), baseSquares = Float64Array.from(raw.baseSquares);
    const first = new Int32Array(count).fill(ROOT), next = new Int32Array(count).fill(ROOT);
    for (let n = count - 1; n > 0; n--) {
        const up = raw.parent[n];
        total[up] += total[n];
        baseTotal[up] += baseTotal[n];
        squares[up] += squares[n];
        baseSquares[up] += baseSquares[n];
        next[n] = first[up];
        first[up] = n;
    }
    return { total, baseTotal, squares, baseSquares, first, next };
}

function childrenOf(sums, n) {
    const kids = [];
    for (let kid = sums.first[n]; kid !== ROOT; kid = sums.next[kid]) kids.push(kid);
    return kids.length < 2 ? kids : kids.sort((a, b) => sums.total[b] - sums.total[a] || sums.baseTotal[b] - sums.baseTotal[a]);
}

const mix = (hash, fn) => Math.imul(hash ^ fn, 0x01000193) >>> 0;

export function textHash(text) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) hash = mix(hash, text.charCodeAt(i));
    return (hash ^ hash >>> 15) >>> 0;
}

// Columns: fn, line, parent, depth, end, offset (the sum of values to the left), self, total, baseSelf, baseTotal, and id, which is the
// same for the same path of functions in every profile. squares and baseSquares are the sums of the samples' squared weights, if
// their numbers are known.
export function buildTree(profile, type, paths = stackPaths(profile)) {
    profile.showNames();
    const raw = grow(profile, type, paths), sums = sumUp(raw), count = raw.parent.length, place = new Int32Array(count), stack = [0];
    const ints = () => new Int32Array(count), reals = () => new Float64Array(count), names = profile.functions.map((fn) => textHash(fn.name));
    const tree = { profile, count, fn: ints(), line: ints(), parent: ints(), depth: ints(), end: ints(), id: new Uint32Array(count), offset: reals(),
        self: reals(), total: reals(), baseSelf: reals(), baseTotal: reals(), squares: profile.counts && reals(), baseSquares: profile.counts && reals(), deepest: 0 }, left = reals();
    for (let n = 0; stack.length; n++) {
        const from = stack.pop(), parent = n ? place[raw.parent[from]] : ROOT;
        place[from] = n;
        tree.fn[n] = raw.fn[from];
        tree.line[n] = raw.line[from];
        tree.parent[n] = parent;
        tree.depth[n] = n ? tree.depth[parent] + 1 : 0;
        tree.offset[n] = left[n] = n ? left[parent] : 0;
        tree.self[n] = raw.self[from];
        tree.total[n] = sums.total[from];
        tree.baseSelf[n] = raw.base[from];
        tree.baseTotal[n] = sums.baseTotal[from];
        if (profile.counts) [tree.squares[n], tree.baseSquares[n]] = [sums.squares[from], sums.baseSquares[from]];
        tree.id[n] = n ? mix(tree.id[parent], names[raw.fn[from]]) : 0;
        tree.deepest = Math.max(tree.deepest, tree.depth[n]);
        if (n) left[parent] += tree.total[n];
        for (let kids = childrenOf(sums, from), i = kids.length; i-- > 0;) stack.push(kids[i]);
    }
    setEnds(tree);
    return tree;
}

function setEnds(tree) {
    for (let n = tree.count - 1; n >= 0; n--) {
        tree.end[n] = Math.max(tree.end[n], n + 1);
        if (n > 0) tree.end[tree.parent[n]] = Math.max(tree.end[tree.parent[n]], tree.end[n]);
    }
}

export const nodeName = (tree, n) => (n === 0 ? 'all' : tree.profile.functions[tree.fn[n]].name);
export const shownName = (tree, n) => (n === 0 ? 'all' : tree.profile.functions[tree.fn[n]].shown);

// Each function once: { fn, self, total, baseSelf, baseTotal, squares, baseSquares }; recursion counts once.
export function functionTable(tree) {
    const rows = new Map(), open = new Int32Array(tree.profile.functions.length), path = [];
    for (let n = 1; n < tree.count; n++) {
        while (path.length && tree.end[path.at(-1)] <= n) open[tree.fn[path.pop()]]--;
        const fn = tree.fn[n], row = rows.get(fn) ?? { fn, self: 0, total: 0, baseSelf: 0, baseTotal: 0, squares: 0, baseSquares: 0 };
        rows.set(fn, row);
        row.self += tree.self[n];
        row.baseSelf += tree.baseSelf[n];
        if (!open[fn]) {
            row.total += tree.total[n];
            row.baseTotal += tree.baseTotal[n];
            row.squares += tree.squares?.[n] ?? 0;
            row.baseSquares += tree.baseSquares?.[n] ?? 0;
        }
        open[fn]++;
        path.push(n);
    }
    return [...rows.values()];
}

// The function that takes the most by itself, or -1.
export function hottestFunction(profile, type) {
    const sums = new Map();
    for (let s = 0; s < profile.stackCount; s++) {
        const fn = profile.frame[profile.start[s + 1] - 1];
        if (isDrawn(profile, type, s) && profile.start[s + 1] > profile.start[s]) sums.set(fn, (sums.get(fn) ?? 0) + profile.values[type][s]);
    }
    return [...sums].reduce((best, one) => (one[1] > best[1] ? one : best), [-1, 0])[0];
}

// Values by the module of the function that took them, the largest first: [{ module, fn, value }], where fn is one of its functions.
export function moduleShares(profile, type) {
    const sums = new Map();
    for (let s = 0; s < profile.stackCount; s++) {
        if (!isDrawn(profile, type, s) || profile.start[s + 1] === profile.start[s]) continue;
        const fn = profile.functions[profile.frame[profile.start[s + 1] - 1]], module = moduleName(fn), row = sums.get(module) ?? { module, fn, value: 0 };
        sums.set(module, row);
        row.value += profile.values[type][s];
    }
    return [...sums.values()].sort((a, b) => b.value - a.value);
}

// By stack, whether its thread waits there nearly always: a thread without work.
export function idleStacks(profile, type) {
    const threads = new Map(), keyOf = (s) => `${profile.thread[s]}/${profile.tid[s]}`;
    for (let s = 0; s < profile.stackCount; s++) {
        const all = threads.get(keyOf(s)) ?? { sum: 0, most: 0 }, value = profile.values[type][s];
        threads.set(keyOf(s), { sum: all.sum + value, most: Math.max(all.most, value) });
    }
    return Array.from({ length: profile.stackCount }, (_, s) => profile.values[type][s] >= IDLE * threads.get(keyOf(s)).sum);
}

// The value of all stacks with a match, each counted once, and the nodes that match.
export function searchTree(tree, regex) {
    const hit = new Uint8Array(tree.count), names = matchesOf(tree.profile, regex);
    let sum = 0;
    const nodes = [];
    for (let n = 1, counted = 0; n < tree.count; n++) {
        if (!names[tree.fn[n]]) continue;
        hit[n] = 1;
        nodes.push(n);
        if (n >= counted) {
            sum += tree.total[n];
            counted = tree.end[n];
        }
    }
    return { hit, nodes, sum };
}
