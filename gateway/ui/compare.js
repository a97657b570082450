// SPDX-License-Identifier: Apache-2.0
// The difference of two profiles: saved captures, ranges of history, or files. A side is a text in the URL: "capture/7",
// "history/SERVICE/FROM/UNTIL/EVENT/SELECTOR" or "file/NAME"; the bytes of a file are only in this page.
import { getJson, isOffline } from './api.js';
import { captureText } from './captures.js';
import { button, formatTime, h } from './dom.js';
import { RECORDED } from './events.js';
import { addCondition, historyPath, labelFilter, localTime, quoteValue } from './history.js';
import { attempt, loadProfile, queryText, readProfile, select, showError } from './load.js';
import { comparableTypes, plainName } from './profile.js';
import { getState, setState } from './state.js';
import { createViewer } from './viewer.js';

const COMPARED_EVENTS = RECORDED.map(({ name, title }) => [name, title]);
const LAST = [['-1h', 'the last hour'], ['-6h', 'the last 6 hours'], ['-1d', 'the last day'], ['-7d', 'the last 7 days'], ['', 'from … until …']];
const pickedFiles = new Map();

const partsOf = (text) => text.split('/').map(decodeURIComponent);
const sideText = (...parts) => parts.map(encodeURIComponent).join('/');

async function loadSide(text, signal) {
    const [kind, name, from, until, event, selector] = partsOf(text);
    if (kind === 'capture') return loadProfile(`/v1/captures/${encodeURIComponent(name)}.pb.gz`, signal);
    if (kind === 'history') return loadProfile(`/v1/history/profile?${queryText([['output', 'proto'], ['service', name], ['from', from], ['until', until], ['event', event], ['selector', selector]])}`, signal);
    const file = pickedFiles.get(name);
    if (!file) throw new Error(`${name ?? text} is not in this page any more: choose it again`);
    return readProfile(new Uint8Array(await file.arrayBuffer()), name);
}

const sideName = (text) => {
    const [kind, name, from = '-1h', until = 'now', , selector] = partsOf(text), time = (one) => (/^\d+$/.test(one) ? formatTime(Number(one)) : one);
    return kind === 'history' ? `${name}${selector ? ` (${selector})` : ''} from ${time(from)} until ${time(until)}` : `${kind === 'capture' ? 'capture ' : ''}${name}`;
};

// The names of functions that changed, by the service's comparison of the parts of each side's time; null for files, and where it has none.
async function changedNames(baseText, nowText, signal) {
    const [base, now] = [partsOf(baseText), partsOf(nowText)], keys = ['service', 'from', 'until', 'event', 'selector'];
    if (base[0] !== now[0] || !['capture', 'history'].includes(now[0])) return null;
    const query = now[0] === 'capture' ? [['base', base[1]], ['new', now[1]]] : keys.flatMap((key, i) => [[key, now[i + 1]], [`base_${key}`, base[i + 1]]]);
    const { functions } = await getJson(`/v1/${now[0] === 'capture' ? '' : 'history/'}diff?${queryText([...query, ['output', 'changes']])}`, { signal });
    const isCertain = ({ self, total }) => [self, total].some(({ share }) => ['more', 'less'].includes(share.verdict));
    return new Set(functions.filter(isCertain).map(({ name }) => plainName(name)));
}

// Both profiles start with a type that both have.
function agreeOnType(now, base) {
    const { refusal, nowType, baseType } = comparableTypes(base, now);
    if (refusal) throw new Error(refusal);
    now.defaultType = nowType;
    base.defaultType = baseType;
}

// The range, the event and the conditions of a service's history. onchange gets the side's text.
function historyFields(label, text, errors, signal, onchange) {
    const [, name, from = '-1h', until = 'now', event = 'on-cpu', selector = ''] = partsOf(text), isLast = until === 'now' && LAST.some(([length]) => length === from);
    const change = (parts) => onchange(sideText('history', name, ...Object.values({ from, until, event, selector, ...parts }))), now = Math.ceil(Date.now() / 60000) * 60;
    const range = select(null, `${label}: range`, LAST, isLast ? from : '', ({ target: { value } }) => change(value ? { from: value, until: 'now' } : { from: now - 3600, until: now }));
    const time = (key, value) => h('label', {}, key, h('input', { type: /^\d+$/.test(value) ? 'datetime-local' : 'text', class: 'time', 'aria-label': `${label}: ${key}`,
        value: /^\d+$/.test(value) ? localTime(Number(value)) : value, onchange: ({ target }) => change({ [key]: Date.parse(target.value) / 1000 || target.value }) }));
    const conditions = h('input', { class: 'wide', value: selector, placeholder: "conditions: version = '1.4'", 'aria-label': `${label}: conditions`, onchange: () => change({ selector: conditions.value }) });
    const fields = h('div', { class: 'bar' }, range, isLast ? '' : [time('from', from), time('until', until)],
        select(null, `${label}: what was recorded`, COMPARED_EVENTS, event, ({ target: { value } }) => change({ event: value })), conditions);
    const ask = (path) => getJson(historyPath(path, { from, until, selector: `service = ${quoteValue(name)}` }), { signal }).catch((error) => showError(errors, error));
    ask('labels').then((found) => found && conditions.before(labelFilter(found.names.map((one) => [one, one]), (one) => ask(`labels/${encodeURIComponent(one)}`),
        (condition) => change({ selector: addCondition(selector, condition) }))));
    return fields;
}

// Chooses one side. onchange gets its text. Captures of another kind than the new one's cannot be its base.
function sidePanel(label, text, { captures, services }, kindOfNew, { errors, signal }, onchange) {
    const [kind, name = ''] = partsOf(text);
    const options = [['', 'choose…'], ['file', 'a file…'], ...captures.filter((one) => !kindOfNew || one.kind === kindOfNew).map((one) => [`capture/${one.id}`, `capture ${captureText(one)}`]),
        ...services.map((one) => [sideText('history', one.name), `history of ${one.name}`])];
    const chosen = kind === 'file' ? 'file' : sideText(kind, name), more = h('div', { class: 'bar' });
    if (kind && !options.some(([value]) => value === chosen)) options.push([chosen, sideName(text)]);
    const take = (file) => {
        if (file) onchange(sideText('file', pickedFiles.set(file.name, file) && file.name));
    };
    if (kind === 'history') more.append(historyFields(label, text, errors, signal, onchange));
    if (kind === 'file') more.append(name, h('input', { type: 'file', 'aria-label': `${label}: file`, onchange: (change) => take(change.target.files[0]) }), h('span', { class: 'muted' }, 'links do not contain files'));
    return h('section', { class: 'panel', 'aria-label': label, ondrop: (drop) => {
        drop.preventDefault();
        take(drop.dataTransfer.files[0]);
    } }, h('div', { class: 'bar' }, h('b', {}, label), select(null, label, options, chosen, (change) => onchange(change.target.value))), more);
}

export const compareView = {
    name: 'compare',
    title: 'Compare',
    async open({ root, signal }) {
        const sides = h('div', { class: 'grid' }), errors = h('div'), hint = h('p', { class: 'muted', role: 'status' }), graph = h('div');
        const viewer = createViewer(graph, { empty: 'no samples in both', name: 'difference' });
        const list = (path, key) => getJson(path, { signal }).then((answer) => answer[key] ?? [], () => []);
        const known = isOffline() ? {} : { captures: await list('/v1/captures', 'captures'), services: await list('/v1/history/services?from=-7d', 'services') };
        const show = async () => {
            const [base, now] = [getState('base'), getState('new')], isReady = /\//.test(base) && /\//.test(now);
            graph.hidden = true;
            hint.textContent = isReady ? 'loading both' : 'Choose a base and a new profile. Functions match by their name and by the role of their file, so these can be two versions of a program.';
            if (!isReady) return;
            const load = (text, place) => (isOffline() ? loadProfile(place) : loadSide(text, signal));
            await attempt(errors, signal, async () => {
                const names = isOffline() ? null : changedNames(base, now, signal).catch(() => null);
                const [profile, baseProfile, changed] = await Promise.all([load(now, '/offline/compare.pb'), load(base, '/offline/compare-base.pb'), names]);
                if (now !== getState('new') || base !== getState('base')) return;
                agreeOnType(profile, baseProfile);
                baseProfile.changed = changed;
                graph.hidden = false;
                viewer.show(profile, { base: baseProfile, title: `${sideName(now)} against ${sideName(base)}` });
            }).finally(() => { hint.textContent = ''; });
        };
        const change = (changes) => {
            setState(changes, true);
            draw();
        };
        const draw = () => {
            const kindOfNew = known.captures.find((one) => `capture/${one.id}` === getState('new'))?.kind;
            sides.replaceChildren(...['base', 'new'].map((key) => sidePanel({ base: 'Base', new: 'New' }[key], getState(key), known, key === 'base' && kindOfNew, { errors, signal },
                (text) => change({ [key]: text }))));
            return show();
        };
        if (isOffline()) root.append(errors, hint, graph);
        else root.append(sides, h('div', { class: 'bar' }, button('⇄ Swap', () => change({ base: getState('new'), new: getState('base') }))), errors, hint, graph);
        await (isOffline() ? show() : draw());
        return () => viewer.destroy();
    },
};
