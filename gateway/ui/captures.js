// SPDX-License-Identifier: Apache-2.0
// Saved captures: taking one, the list, one of them as a flame graph, and pprof files from elsewhere.
import { getJson, isOffline, lines } from './api.js';
import { button, choice, formatSeconds, formatTime, formatValue, h, message, number, percent } from './dom.js';
import { MODES } from './events.js';
import { attempt, form, input, loadProfile, numberInput, readProfile, select } from './load.js';
import { getState, goTo, linkTo } from './state.js';
import { createViewer } from './viewer.js';

const CAPTURE_KINDS = [...MODES.map(({ mode, title, shows }) => [`mode=${mode}`, `${title}: ${shows}`]), ['kind=allocs', 'Allocations'], ['heap', 'Heap: what is in use']];
const DOWNLOADS = { svg: 'SVG', 'pb.gz': 'pprof', 'speedscope.json': 'speedscope', 'firefox.json': 'Firefox', md: 'Markdown', collapsed: 'collapsed', txt: 'table' };

const startText = (capture) => formatTime(number(capture.startUnixNs) / 1e9, true);

export const captureText = (capture) => `${capture.id}: ${capture.kind} of ${capture.target}, ${formatSeconds(capture.durationMs / 1000)}, ${startText(capture)} ${capture.note}`;

const downloads = (id) => h('details', {}, h('summary', {}, 'Download'),
    Object.entries(DOWNLOADS).map(([extension, text]) => [h('a', { href: `/v1/captures/${id}.${extension}`, download: true }, text), ' ']));

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

function captureRow(capture, tick) {
    const facts = [startText(capture), `pid ${capture.pid}`, capture.frequencyHz && `${capture.frequencyHz} Hz`, formatValue(number(capture.samples), 'samples'),
        number(capture.dropped) && `${capture.dropped} dropped`, formatValue(number(capture.sizeBytes), 'bytes')].filter(Boolean).join(' · ');
    return h('tr', {}, h('td', {}, h('input', { type: 'checkbox', value: capture.id, 'aria-label': `compare capture ${capture.id}`, onchange: tick })),
        h('td', {}, h('a', { href: linkTo('captures', { id: capture.id }) }, `${capture.id}: ${capture.kind} of ${capture.target}, ${formatSeconds(capture.durationMs / 1000)}`),
            ` ${capture.note}`, h('div', { class: 'muted' }, facts)), h('td', {}, downloads(capture.id)));
}

async function showList(ctx) {
    const errors = h('div'), file = h('input', { type: 'file', 'aria-label': 'open a pprof file', onchange: () => file.files[0] && openDroppedFile(file.files[0]) });
    const ticked = () => [...table.querySelectorAll(':checked')].map((box) => Number(box.value)).sort((a, b) => a - b);
    const compare = button('Compare the two', () => goTo('compare', { base: `capture/${ticked()[0]}`, new: `capture/${ticked()[1]}` }), { disabled: true });
    const { captures = [] } = await getJson(`${ctx.prefix}/v1/captures`, { signal: ctx.signal });
    const table = h('tbody', {}, captures.map((capture) => captureRow(capture, () => { compare.disabled = ticked().length !== 2; })));
    ctx.root.append(captureForm(ctx, errors), errors, captures.length ? h('table', { class: 'list' }, table)
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
