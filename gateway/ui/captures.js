// SPDX-License-Identifier: Apache-2.0
// Saved captures: taking one, the list, one of them as a flame graph, and pprof files from elsewhere.
import { getJson, isOffline, lines } from './api.js';
import { button, choice, formatSeconds, formatTime, formatValue, h, message, number, percent } from './dom.js';
import { MODES } from './events.js';
import { attempt, form, input, loadProfile, numberInput, readProfile, select } from './load.js';
import { address, getState, goTo, linkTo, setState } from './state.js';
import { createViewer } from './viewer.js';

const CAPTURE_KINDS = [...MODES.map(({ mode, title, shows }) => [`mode=${mode}`, `${title}: ${shows}`]), ['kind=allocs', 'Allocations'], ['heap', 'Heap: what is in use']];
const DOWNLOADS = { svg: 'SVG', 'pb.gz': 'pprof', 'speedscope.json': 'speedscope', 'firefox.json': 'Firefox', md: 'Markdown', collapsed: 'collapsed', txt: 'table' };

const startText = (capture, isDated = false) => formatTime(number(capture.startUnixNs) / 1e9, true, isDated);

export const captureText = (capture) => `${capture.id}: ${capture.kind} of ${capture.target}, ${formatSeconds(capture.durationMs / 1000)}, ${startText(capture)} ${capture.note}`;

const downloads = (id) => h('details', {}, h('summary', {}, 'Download'),
    Object.entries(DOWNLOADS).map(([extension, text]) => [h('a', { href: address(`/v1/captures/${id}.${extension}`), download: true }, text), ' ']));

// ---- Taking one ----

// Takes a capture and opens it. Its progress, and a button that cancels it, are in `place`.
async function takeCapture({ prefix, signal }, query, place) {
    const stop = new AbortController(), bar = h('progress', { 'aria-label': 'progress of the capture' }), text = h('span', { role: 'status' }, 'starting');
    let taken = null;
    signal.addEventListener('abort', () => stop.abort());
    place.replaceChildren(bar, text, button('Cancel', () => stop.abort()));
    const onLine = ({ progress: now, capture }) => {
        taken = capture ?? taken;
        if (!now) return;
        Object.assign(bar, { max: now.durationMs, value: now.elapsedMs });
        text.textContent = `${Math.round(now.elapsedMs / 1000)} s of ${Math.round(now.durationMs / 1000)}, ${formatValue(number(now.samples), 'samples')}, `
            + `${formatValue(number(now.dropped))} dropped${now.hottest ? `, hottest: ${now.hottest} ${percent(now.hottestShare, 1)}` : ''}`;
    };
    await lines(`${prefix}/v1/captures?${query}`, { method: 'POST', signal: stop.signal, onLine }).finally(() => place.replaceChildren());
    if (taken && !signal.aborted) goTo('captures', { id: taken.id });
}

function captureForm(ctx, errors) {
    const seconds = numberInput('seconds', '', 10, 1, 3600, 's'), place = h('div', { class: 'bar' });
    const times = choice('duration', [[5, '5 s'], [10, '10 s'], [30, '30 s']], 10, (value) => { seconds.firstElementChild.value = value; });
    const kind = select(null, 'what to capture', CAPTURE_KINDS, 'mode=cpu');
    return h('section', { class: 'panel', 'aria-label': 'take a capture' }, form('Capture', (query) => (kind.value === 'heap' ? goTo('heap')
        : place.firstChild || attempt(errors, ctx.signal, () => takeCapture(ctx, `${kind.value}&${query}`, place))), kind, times, seconds,
    numberInput('frequency', 'Rate', 99, 1, 10000, 'Hz'), input('note', 'Note', { maxlength: 200 })), place);
}

// ---- The list ----

// Columns: key, title, what it is sorted by, whether the largest comes first.
const COLUMNS = [['id', 'Capture', (one) => number(one.id), true], ['target', 'Target', (one) => one.target.toLowerCase()], ['kind', 'Kind', (one) => one.kind], ['time', 'Started', (one) => number(one.startUnixNs), true],
    ['long', 'Length', (one) => one.durationMs, true], ['samples', 'Samples', (one) => number(one.samples), true], ['size', 'Size', (one) => number(one.sizeBytes), true]];

function captureRow(capture, isTicked, tick) {
    const { id, kind, target, pid, note, frequencyHz } = capture, text = (value) => h('td', { class: 'number' }, value), lost = number(capture.dropped);
    return h('tr', {}, h('td', {}, h('input', { type: 'checkbox', value: id, checked: isTicked, 'aria-label': `compare capture ${id}`, onchange: tick })),
        h('td', {}, h('a', { class: 'name', href: linkTo('captures', { id }), title: note }, `${id}: ${note || `${kind} of ${target}`}`)), h('td', {}, target, h('span', { class: 'muted' }, ` pid ${pid}`)),
        h('td', {}, kind, h('span', { class: 'muted' }, frequencyHz ? ` ${frequencyHz} Hz` : '')), text(startText(capture, true)), text(formatSeconds(capture.durationMs / 1000)),
        text(`${formatValue(number(capture.samples))}${lost ? `, ${lost} dropped` : ''}`), text(formatValue(number(capture.sizeBytes), 'bytes')), h('td', {}, downloads(id)));
}

// The rows that fit the words of the filter, sorted by a column.
function sortCaptures(captures, filter, [key, , valueOf, isDown]) {
    const words = filter.toLowerCase().split(' ').filter(Boolean), isBack = getState('back') === '1';
    const found = captures.filter((one) => words.every((word) => `${one.id} ${one.target} ${one.pid} ${one.kind} ${one.note} ${startText(one, true)}`.toLowerCase().includes(word)));
    const order = (a, b) => (valueOf(a) < valueOf(b) ? -1 : valueOf(a) > valueOf(b) ? 1 : 0) || number(a.id) - number(b.id);
    return found.sort(key && Boolean(isDown) !== isBack ? (a, b) => order(b, a) : order);
}

class CaptureTable {
    constructor(captures, onticks) {
        Object.assign(this, { captures, onticks, ticks: new Set(), head: h('tr'), body: h('tbody'), none: h('div') });
        this.filter = h('input', { type: 'search', placeholder: 'number, target, kind, note or date', 'aria-label': 'filter captures', value: getState('filter'), oninput: () => {
            setState({ filter: this.filter.value });
            this.draw();
        } });
        this.element = h('div', {}, h('div', { class: 'bar' }, this.filter), h('div', { class: 'tablebox' }, h('table', { class: 'list' }, h('thead', {}, this.head), this.body)), this.none);
        this.draw();
    }

    draw() {
        const sort = COLUMNS.find(([key]) => key === getState('so')) ?? COLUMNS[0], found = sortCaptures(this.captures, this.filter.value, sort), isBack = getState('back') === '1';
        const isUp = Boolean(sort[3]) === isBack, header = ([key, title]) => h('th', { class: /time|long|samples|size/.test(key) ? 'number' : null, 'aria-sort': key !== sort[0] ? 'none' : isUp ? 'ascending' : 'descending' },
            button(key === sort[0] ? `${title} ${isUp ? '↑' : '↓'}` : title, () => {
                setState({ so: key, back: key === sort[0] && !isBack }, true);
                this.draw();
            }));
        this.head.replaceChildren(h('th'), ...COLUMNS.map(header), h('th'));
        this.body.replaceChildren(...found.map((one) => captureRow(one, this.ticks.has(one.id), ({ target }) => {
            this.ticks[target.checked ? 'add' : 'delete'](one.id);
            this.onticks([...this.ticks].sort((a, b) => a - b));
        })));
        this.none.replaceChildren(found.length ? '' : message('hint', 'no capture matches the filter'));
    }
}

async function showList(ctx) {
    const errors = h('div'), file = h('input', { type: 'file', 'aria-label': 'open a pprof file', onchange: () => file.files[0] && openDroppedFile(file.files[0]) });
    let ticked = [];
    const compare = button('Compare the two', () => goTo('compare', { base: `capture/${ticked[0]}`, new: `capture/${ticked[1]}` }), { disabled: true });
    const { captures = [] } = await getJson(`${ctx.prefix}/v1/captures`, { signal: ctx.signal });
    const table = new CaptureTable(captures, (ids) => {
        ticked = ids;
        compare.disabled = ids.length !== 2;
    });
    ctx.root.append(captureForm(ctx, errors), errors, captures.length ? table.element
        : message('hint', 'no saved captures yet: take one here, or with `sonde record --keep`'),
    h('div', { class: 'bar' }, compare, h('span', { class: 'muted' }, 'tick two; the older is the base'), h('label', { class: 'right' }, 'pprof file, here or dropped anywhere: ', file)));
}

// ---- One profile ----

const backLink = () => h('a', { href: linkTo('captures') }, 'All captures');

async function showCapture({ root, signal }, id) {
    const bar = h('div', { class: 'bar' }, backLink());
    const [{ captures = [] }, profile] = await Promise.all([getJson('/v1/captures', { signal }), loadProfile(`/v1/captures/${id}.pb.gz`, signal)]);
    const capture = captures.find((one) => one.id === id);
    if (number(capture?.timelineBytes)) bar.append(h('a', { href: linkTo('heatmap', { capture: id }) }, 'Heat map'));
    root.append(bar);
    return [profile, `Capture ${capture ? captureText(capture) : id}`];
}

let droppedFile = null;

// Shows a file. Its name is in the URL, its bytes are only in this page.
export function openDroppedFile(file) {
    droppedFile = file;
    goTo('captures', { file: file.name, at: Date.now() });
}

async function showFile({ root }, name) {
    root.append(h('div', { class: 'bar' }, backLink()));
    if (isOffline()) return [await loadProfile('/offline/captures.pb'), name];
    if (droppedFile?.name !== name) throw new Error(`${name} is not in this page any more: drop it again`);
    return [await readProfile(new Uint8Array(await droppedFile.arrayBuffer()), name), name];
}

export const capturesView = {
    name: 'captures',
    title: 'Captures',
    async open(ctx) {
        const id = getState('id'), file = getState('file');
        if (!id && !file) return showList(ctx);
        const errors = h('div');
        ctx.root.append(errors);
        let viewer = null;
        await attempt(errors, ctx.signal, async () => {
            const [profile, title] = await (id ? showCapture(ctx, id) : showFile(ctx, file));
            viewer = createViewer(ctx.root, { name: id ? `capture-${id}` : file.replace(/\.(pb|gz|pprof)\b/g, '') });
            viewer.show(profile, { title });
        });
        return () => viewer?.destroy();
    },
};
