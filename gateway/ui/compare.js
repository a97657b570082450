// SPDX-License-Identifier: Apache-2.0
// The difference of two profiles: saved captures, ranges of history, or files. A side is a text in the URL: "capture/7",
// "history/SERVICE/FROM/UNTIL/EVENT" or "file/NAME"; the bytes of a file are only in this page.
import { getJson, isOffline } from './api.js';
import { captureText } from './captures.js';
import { button, h } from './dom.js';
import { RECORDED } from './events.js';
import { attempt, input, loadProfile, queryText, readProfile, select } from './load.js';
import { getState, setState } from './state.js';
import { createViewer } from './viewer.js';

const COMPARED_EVENTS = RECORDED.map(({ name }) => [name, name]);
const pickedFiles = new Map();

const partsOf = (text) => text.split('/').map(decodeURIComponent);
const sideText = (...parts) => parts.map(encodeURIComponent).join('/');

async function loadSide(text, signal) {
    const [kind, name, from, until, event] = partsOf(text);
    if (kind === 'capture') return loadProfile(`/v1/captures/${encodeURIComponent(name)}.pb.gz`, signal);
    if (kind === 'history') return loadProfile(`/v1/history/profile?${queryText([['output', 'proto'], ['service', name], ['from', from], ['until', until], ['event', event]])}`, signal);
    const file = pickedFiles.get(name);
    if (!file) throw new Error(`${name ?? text} is not in this page any more: choose it again`);
    return readProfile(new Uint8Array(await file.arrayBuffer()), name);
}

const sideName = (text) => {
    const [kind, name, from = '-1h', until = 'now'] = partsOf(text);
    return kind === 'history' ? `${name} from ${from} until ${until}` : `${kind === 'capture' ? 'capture ' : ''}${name}`;
};

// Both profiles start with a type that both have.
function agreeOnType(now, base) {
    const names = base.types.map(({ type, unit }) => `${type} in ${unit}`), mine = now.types.map(({ type, unit }) => `${type} in ${unit}`);
    const wanted = [mine[now.defaultType], ...mine].find((name) => names.includes(name));
    if (!wanted) throw new Error(`these cannot be compared: the base has ${names.join(' and ')}, the new one ${mine.join(' and ')}`);
    now.defaultType = mine.indexOf(wanted);
    base.defaultType = names.indexOf(wanted);
}

// Chooses one side. onchange gets its text.
function sidePanel(label, text, { captures, services }, onchange) {
    const [kind, name = '', from = '-1h', until = 'now', event = 'on-cpu'] = partsOf(text);
    const options = [['', 'choose…'], ['file', 'a file…'], ...captures.map((one) => [`capture/${one.id}`, `capture ${captureText(one)}`]),
        ...services.map((one) => [sideText('history', one.name), `history of ${one.name}`])];
    const chosen = kind === 'file' ? 'file' : sideText(kind, name), range = h('div', { class: 'bar' });
    if (kind && !options.some(([value]) => value === chosen)) options.push([chosen, sideName(text)]);
    const changeRange = () => onchange(sideText('history', name, ...[...range.querySelectorAll('input, select')].map((field) => field.value)));
    const take = (file) => {
        if (file) onchange(sideText('file', pickedFiles.set(file.name, file) && file.name));
    };
    if (kind === 'history') range.append(input('from', 'from', { value: from, onchange: changeRange }), input('until', 'until', { value: until, onchange: changeRange }),
        select('event', 'what was recorded', COMPARED_EVENTS, event, changeRange));
    if (kind === 'file') range.append(name, h('input', { type: 'file', 'aria-label': `${label}: file`, onchange: (change) => take(change.target.files[0]) }), h('span', { class: 'muted' }, 'links do not contain files'));
    return h('section', { class: 'panel', 'aria-label': label, ondrop: (drop) => {
        drop.preventDefault();
        take(drop.dataTransfer.files[0]);
    } }, h('div', { class: 'bar' }, h('b', {}, label), select(null, label, options, chosen, (change) => onchange(change.target.value))), range);
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
                const [profile, baseProfile] = await Promise.all([load(now, '/offline/compare.pb'), load(base, '/offline/compare-base.pb')]);
                if (now !== getState('new') || base !== getState('base')) return;
                agreeOnType(profile, baseProfile);
                graph.hidden = false;
                viewer.show(profile, { base: baseProfile, title: `${sideName(now)} against ${sideName(base)}` });
            }).finally(() => { hint.textContent = ''; });
        };
        const change = (changes) => {
            setState(changes, true);
            draw();
        };
        const draw = () => {
            sides.replaceChildren(...['base', 'new'].map((key) => sidePanel({ base: 'Base', new: 'New' }[key], getState(key), known, (text) => change({ [key]: text }))));
            return show();
        };
        if (isOffline()) root.append(errors, hint, graph);
        else root.append(sides, h('div', { class: 'bar' }, button('⇄ Swap', () => change({ base: getState('new'), new: getState('base') }))), errors, hint, graph);
        await (isOffline() ? show() : draw());
        return () => viewer.destroy();
    },
};
