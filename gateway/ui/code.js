// SPDX-License-Identifier: Apache-2.0
// The code of a function in a dialog: instructions by address with the lines they belong to. The gateway has the code, the profile has
// the samples; both meet at ELF addresses.
import { getJson } from './api.js';
import { button, h, message, percent } from './dom.js';
import { showDialog } from './menu.js';
import { baseName } from './pprof.js';

const ASKED = 200, AROUND = 8, WHOLE = 2000, TRIES = 5;
const fileOffset = ({ address, start, offset }) => BigInt(address) - BigInt(start) + BigInt(offset);
const hex = (value) => `0x${BigInt(value).toString(16)}`;

// The samples in a function's own code and in what is inlined there: { whole, counts: Map(place number, { self, total }) }. A sample counts
// once for an address, however often its stack has it.
function countPlaces(profile, type, { name, module }) {
    const wanted = profile.functions.map((fn) => fn.name === name && fn.module === module), counts = new Map();
    let whole = 0;
    for (let s = 0; s < profile.stackCount; s++) {
        const value = profile.values[type][s], seen = new Set();
        let isLeaf = true;
        whole += value;
        for (let i = profile.start[s + 1]; i-- > profile.start[s];) {
            const at = profile.at[i] ?? -1;
            if (at < 0) continue; // inlined: the function that has the code comes next
            if (wanted[profile.frame[i]]) {
                const count = counts.get(at) ?? { self: 0, total: 0 };
                count.self += isLeaf ? value : 0;
                count.total += seen.has(at) ? 0 : value;
                counts.set(at, count);
                seen.add(at);
            }
            isLeaf = false;
        }
    }
    return { whole, counts };
}

// The file with most of the samples: [{ place, self, total }], the largest first.
function hottestFile(profile, counts) {
    const files = new Map();
    for (const [at, count] of counts) {
        const place = profile.places[at], file = files.get(place.build) ?? { total: 0, items: [] };
        file.total += count.total;
        file.items.push({ place, ...count });
        files.set(place.build, file);
    }
    const [first] = [...files.values()].sort((a, b) => b.total - a.total);
    return first?.items.sort((a, b) => b.total - a.total) ?? [];
}

// Adds the samples to the instructions: { self, total } in shares. `shift` is the file offset of an address minus its ELF address.
function addCounts(instructions, items, whole, shift) {
    const starts = instructions.map((one) => BigInt(one.address));
    for (const { place, self, total } of items) {
        const address = fileOffset(place) - shift;
        let low = 0, high = starts.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (starts[middle] <= address) low = middle + 1;
            else high = middle;
        }
        const found = instructions[low - 1];
        if (!found || address >= starts[low - 1] + BigInt(found.size)) continue;
        found.self = (found.self ?? 0) + self / (whole || 1);
        found.total = (found.total ?? 0) + total / (whole || 1);
    }
}

async function fetchCode(items, start) {
    // Addresses of the history are offsets in the file, so a mapping of one page at its own offset is enough to convert them.
    const { place } = items[0], near = items.filter((item) => item.place.start === place.start).slice(0, ASKED);
    const page = place.start ? null : near.map((item) => BigInt(item.place.address)).reduce((least, address) => address < least ? address : least) & ~0xfffn;
    const path = `/v1/code?build_id=${encodeURIComponent(place.build)}&start=${hex(page ?? place.start)}&offset=${hex(page ?? place.offset)}&address=${near.map((item) => hex(item.place.address)).join()}${start ? `&function=${hex(start)}` : ''}`;
    let answer = await getJson(path);
    for (let i = 0; i < TRIES && answer.withoutLines === 'CONVERTING'; i++) answer = await getJson(path);
    return answer;
}

function placeText(answer, number) {
    const place = answer.places[number - 1], parent = answer.places[place.parent - 1], where = (one) => `${baseName(answer.strings[one.file]) || '?'}:${one.line}`;
    return where(place) + (parent ? ` (${answer.strings[place.function]}, inlined at ${where(parent)})` : '');
}

function jumpMark(one, heads) {
    if (heads.has(one.address)) return '↻ ';
    const isInside = (one.kind === 'JUMP' || one.kind === 'BRANCH') && BigInt(one.target) && !one.targetName;
    return !isInside ? '' : BigInt(one.target) <= BigInt(one.address) ? '↑ ' : '↓ ';
}

function codeTable(answer) {
    const { instructions, strings } = answer, rows = [], share = (value) => h('td', { class: 'number' }, value ? percent(value, 1) : '');
    const heads = new Set(instructions.filter((one) => /JUMP|BRANCH/.test(one.kind) && BigInt(one.target) && BigInt(one.target) <= BigInt(one.address)).map((one) => one.target));
    const near = (i) => instructions.slice(Math.max(0, i - AROUND), i + AROUND + 1).some((one) => one.total);
    let place = 0, last = -1;
    instructions.forEach((one, i) => {
        if (instructions.length > WHOLE && !near(i)) return;
        if (last >= 0 && (last !== i - 1 || one.isAfterGap)) rows.push(h('tr', {}, h('td', { colspan: 4, class: 'muted' }, '…')));
        if (one.place && one.place !== place) rows.push(h('tr', {}, h('td', { colspan: 3 }), h('td', { class: 'muted' }, placeText(answer, one.place))));
        rows.push(h('tr', {}, share(one.self), share(one.total), h('td', { class: 'number muted' }, BigInt(one.address).toString(16)),
            h('td', {}, h('code', {}, `${jumpMark(one, heads)}${one.text}`), one.targetName ? h('span', { class: 'muted' }, ` ${strings[one.targetName]}`) : '')));
        [place, last] = [one.place, i];
    });
    return h('table', { class: 'list' }, h('thead', {}, h('tr', {}, ['Self', 'Total', 'Address', 'Code'].map((text) => h('th', { scope: 'col', class: text === 'Code' ? null : 'number' }, text)))), h('tbody', {}, rows));
}

// Several functions of that name: a button for each.
const codeChoice = (answer, onpick) => answer.functions.map((fn) => h('p', {}, button(`${answer.strings[fn.name]} at ${hex(fn.start)}`, () => onpick(fn.start)), h('span', { class: 'muted' }, ` ${answer.strings[fn.file]}:${fn.line}`)));

async function fillCode(box, items, whole, start) {
    box.replaceChildren(message('hint', 'reading the code'));
    try {
        const answer = await fetchCode(items, start), first = answer.addresses[0];
        const isChoice = answer.functions.filter((fn) => !fn.isPart).length > 1;
        if (!start && isChoice && !answer.withoutCode && !answer.instructions.length) return box.replaceChildren(message('hint', 'several functions have this name'), ...codeChoice(answer, (chosen) => fillCode(box, items, whole, chosen)));
        if (!Number(first.address)) return box.replaceChildren(message('hint', 'the samples are not in a function of that file'));
        addCounts(answer.instructions, items, whole, fileOffset(items[0].place) - BigInt(first.address));
        box.replaceChildren(...[answer.withoutCode && message('hint', answer.withoutCode), answer.withoutLines && message('hint', `no lines: ${answer.withoutLines}`), codeTable(answer)].filter(Boolean));
    } catch (error) {
        box.replaceChildren(message('error', error.message));
    }
}

// A function of { name, module }.
export function showCode(profile, type, fn) {
    const { whole, counts } = countPlaces(profile, type, fn), items = hottestFile(profile, counts), box = h('div', { class: 'code' });
    showDialog(`Code of ${fn.shown ?? fn.name}`, box);
    if (!items.length) box.append(message('hint', 'no sample is in this function\'s own code: it is inlined into its callers'));
    else if (!items[0].place.build) box.append(message('hint', `${fn.module || 'this code'} has no build-id, so its file cannot be found`));
    else fillCode(box, items, whole, 0);
}
