// SPDX-License-Identifier: Apache-2.0
// What was recorded: services, their CPU time or memory over time, graphs of ranges and of what changed between two of them.
import { getJson } from './api.js';
import { button, choice, formatSeconds, formatTime, formatValue, h, message, number, percent } from './dom.js';
import { RECORDED } from './events.js';
import { attempt, loadProfile, queryText, select, showError } from './load.js';
import { readableName } from './names.js';
import { getState, isOn, linkTo, setMoment, setState } from './state.js';
import { createStrip, rangeText, rateText } from './strip.js';
import { createViewer } from './viewer.js';

const RANGES = [['3600', '1 h'], ['21600', '6 h'], ['86400', '1 d'], ['604800', '7 d']], STEPS = [['60', 'Minute'], ['3600', 'Hour'], ['86400', 'Day']];
const AUTO_STEPS = [10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400], MAX_BARS = 720, AUTO_GRAPH_S = 90000, MAX_ROWS = 200, MAX_MARKS = 60, MARKS_OFFERED = 3;
export const MAX_STEPS = 11000, NO_RANGES = { rf: null, ru: null, bf: null, bu: null };

export const quoteValue = (value) => `'${value.replace(/['\\]/g, '\\$&')}'`;
export const quoteName = (name) => (/^[A-Za-z_][\w.]*$/.test(name) ? name : `\`${name}\``);
export const localTime = (time) => new Date((time - new Date(time * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 16);

export const addCondition = (old, condition) => (!old || old.startsWith('{') ? condition : `${/\bor\b/i.test(old) ? `(${old})` : old} AND ${condition}`);
const fixedRange = ({ from, until }) => ({ ra: '0', hf: from, hu: until });

// A list of [value, text] that calls back with the chosen value.
export const chooseBox = (label, options, value, onchoose) => select('', label, options, value, (event) => onchoose(event.target.value));

// A list of labels and, when one is chosen, one of its values. ask(name) returns { values, isCut }. onpick() gets the condition.
export function labelFilter(labels, ask, onpick) {
    const values = h('span'), label = chooseBox('filter by a label', [['', 'filter by label…'], ...labels], '', async (name) => {
        const found = name && await ask(name), all = found && [['', found.isCut ? 'value (the first of them)…' : 'value…'], ...found.values.map((one) => [one, one || '(none)'])];
        if (found) values.replaceChildren(chooseBox('value of the label', all, '', (value) => onpick(`${quoteName(name)} = ${quoteValue(value)}`)));
    });
    return h('span', { class: 'bar' }, label, values);
}

export const historyPath = (path, parameters) => `/v1/history/${path}?${queryText(Object.entries(parameters))}`;

// The selection in the URL. A range that ends now is only its length there; it is fixed here, so that all requests agree.
export function historyState() {
    const length = number(getState('ra', '3600')), now = Math.ceil(Date.now() / 10000) * 10, event = getState('ev', 'on-cpu');
    const [from, until] = length ? [now - length, now] : [number(getState('hf')), number(getState('hu'))];
    if (length) setState({ hf: null, hu: null });
    setMoment({ ra: '0', hf: from, hu: until });
    const { title: text, rateUnit: unit, perRate: divisor } = RECORDED.find(({ name }) => name === event) ?? { title: event, rateUnit: 'count', perRate: 1 };
    return { from, until, what: { service: getState('sv'), event, selector: getState('sr') }, text, unit, divisor };
}

// The service to show. "" = all; null: the target was not recorded. Of a target that is a process, only this process is shown.
export async function findService(services, { target, pid, signal }, { from, until, what }) {
    if (getState('sv') || isOn('all')) return getState('sv');
    if (!target || target === '@all') return services.length === 1 ? services[0].name : '';
    if (!pid) return services.some((one) => one.name === target) ? target : null;
    const own = await getJson(historyPath('services', { from, until, selector: `pid = ${pid}` }), { signal });
    if (own.services.length !== 1) return null;
    setState({ sv: own.services[0].name, sr: getState('sr') || `pid = ${pid}` });
    what.selector = getState('sr');
    return own.services[0].name;
}

// Settings of another service, of which the chosen process is no part.
export const ofService = ({ pid }, sv) => ({ sv, all: !sv, ...NO_RANGES, ...(getState('sr') === `pid = ${pid}` ? { sr: null } : {}) });

// What stands in place of the graph of a target that was not recorded. It never becomes that of another one by itself.
export function unrecorded(view, services, refusal = '') {
    const { ctx } = view, hasNamesakes = ctx.pid && services.some((one) => one.name === ctx.name);
    view.graph.clear(message('hint', `${ctx.label} was not recorded in this range${refusal && `: ${refusal}`}. `,
        hasNamesakes ? button(`Other processes called ${ctx.name}`, () => view.update(ofService(ctx, ctx.name))) : '', ' ', button('All services', () => view.update(ofService(ctx, '')))));
}

// What a point of a series means, in the unit of historyState().
export const pointValue = (value, { divisor }, step) => number(value) / (divisor ? divisor * step : 1);

export const recordedChoice = (events, chosen, onchoose) => choice('what was recorded', RECORDED.filter(({ name }) => events.includes(name) || name === chosen)
    .map(({ name, title }) => [name, title]), chosen, onchoose);
export function rangeChoice(onchoose) {
    const group = choice('range', RANGES, getState('ra', '3600'), onchoose);
    [...group.children].forEach((one, i) => { one.dataset.key = RANGES[i][0]; });
    return group;
}

// The graph of the range in the URL, or its difference from the second one. A new load ends the last one.
export class RangeGraph {
    // getMoment() returns what "the last hour" in the URL is now, because chosen ranges do not move with it.
    constructor(ctx, picture, pathOf, getMoment, options) {
        Object.assign(this, { picture, pathOf, getMoment, place: h('div'), note: h('p', { class: 'muted', role: 'status' }), body: h('div') });
        ctx.root.append(this.place, this.note, this.body);
        ctx.signal.addEventListener('abort', () => this.stop());
        this.viewer = createViewer(this.body, options);
    }

    chosen() {
        return ['r', 'b'].map((key) => (getState(`${key}u`) ? [number(getState(`${key}f`)), number(getState(`${key}u`))] : null));
    }

    choose(from, until, isBase) {
        setState(from === null ? NO_RANGES : { ...this.getMoment(), ...(isBase ? { bf: from, bu: until } : { rf: from, ru: until }) }, true);
        for (const one of document.querySelectorAll('[aria-label="range"] button')) one.setAttribute('aria-pressed', String(getState('ra', '3600') === one.dataset.key));
    }

    // Shows in the picture what is chosen.
    mark() {
        const [range, base] = this.chosen();
        this.picture.clear();
        if (range) this.picture.select(...range);
        if (base) this.picture.selectBase(...base);
    }

    // `whole` is shown if no range is chosen. The base is scaled to the length of the range, but states are not.
    show(name, whole, isState) {
        const [chosen, base] = this.chosen(), range = chosen ?? whole, { signal } = this.stop(), text = (one) => this.picture.rangeText(...one);
        const scale = base && !isState ? (range[1] - range[0]) / (base[1] - base[0]) : 1, about = base ? [`the base is ${text(base)}${isState ? '' : ', scaled to the same length'}`] : [];
        this.note.textContent = 'loading…';
        return attempt(this.place, signal, async () => {
            const [now, old] = await Promise.all([range, base].map((one) => one && loadProfile(this.pathOf(...one), signal)));
            const whole = old?.total(old.defaultType), used = whole && old, seconds = (one) => formatSeconds(one[1] - one[0]);
            if (old && scale !== 1) {
                old.scaled = `${formatValue(whole, old.types[old.defaultType].unit)} in ${seconds(base)}, which is`;
                old.perTime = ` per ${seconds(range)}`;
                old.values = old.values.map((values) => values.map((value) => Math.round(value * scale)));
            }
            this.note.textContent = old && !used ? 'Nothing was recorded in the second range, so there is nothing to compare with.' : '';
            this.body.hidden = false;
            this.viewer.show(now, { base: used, title: `${name}, ${text(range)}${used ? ` against ${text(base)}` : ''}`, about });
        });
    }

    // No graph, but something else in its place.
    clear(...instead) {
        this.stop();
        this.body.hidden = true;
        this.note.replaceChildren(...instead);
    }

    stop() {
        this.abort?.abort();
        this.abort = new AbortController();
        return this.abort;
    }
}

// What there is of a range that begins before the recording.
const recordedPart = (from, until, began) => (began > from ? [`${formatSeconds(until - from)}; recorded: the last ${formatSeconds(Math.max(until - began, 0))}`] : []);

class History {
    constructor(ctx, info) {
        Object.assign(this, { ctx, info, controls: h('div'), errors: h('div'), facts: h('p', { class: 'muted' }), marked: h('div', { class: 'bar' }), services: h('div', { class: 'tables' }) });
        ctx.root.append(this.controls, this.errors);
        this.strip = createStrip(ctx.root, { label: 'values over time', onselect: (...range) => {
            this.graph.choose(...range);
            this.showGraph();
        } });
        ctx.root.append(this.marked, this.facts, this.services);
        this.graph = new RangeGraph(ctx, this.strip, (from, until) => historyPath('profile', { ...this.state.what, from, until, output: 'proto' }), () => fixedRange(this.state), { name: 'history', empty: 'no samples in this range' });
    }

    ask(path, parameters = {}) {
        return getJson(historyPath(path, { from: this.state.from, until: this.state.until, ...parameters }), { signal: this.ctx.signal });
    }

    // After a change of anything but the chosen ranges.
    update(changes = {}) {
        setState(changes, true);
        this.state = historyState();
        this.graph.clear();
        return attempt(this.errors, this.ctx.signal, async () => {
            const { services } = await this.ask('services'), { what, from, until } = this.state, found = await findService(services, this.ctx, this.state);
            what.service = found ?? '';
            this.drawServices(found === null ? [] : services);
            await this.drawControls(services, found);
            if (found === null) {
                this.facts.textContent = '';
                this.marked.replaceChildren();
                this.strip.set({ from, until, step: 1, series: [], marks: [] });
                return unrecorded(this, services, this.info.refusal);
            }
            await this.drawStrip();
            this.graph.mark();
            this.showGraph();
        });
    }

    drawServices(services) {
        const sorted = [...services].sort((a, b) => number(b.onCpuNs) - number(a.onCpuNs)), isShown = !this.state.what.service && services.length > 1;
        const row = (one) => h('tr', {}, h('td', {}, button(one.name, () => this.update(ofService(this.ctx, one.name)), { class: 'name', title: one.name })),
            [formatSeconds(number(one.onCpuNs) / 1e9), one.hosts, one.processes].map((text) => h('td', { class: 'number' }, text)));
        this.services.replaceChildren(isShown ? h('table', { class: 'list' }, h('tr', {}, ['Service', 'CPU time', 'Hosts', 'Processes'].map((text, i) => h('th', { class: i ? 'number' : null }, text))),
            sorted.slice(0, MAX_ROWS).map(row)) : '');
    }

    async drawControls(services, found) {
        const { what, from, until } = this.state, events = services.find((one) => one.name === what.service)?.events ?? services.flatMap((one) => one.events);
        const scope = what.service ? { selector: `service = ${quoteValue(what.service)}` } : {}, { names } = await this.ask('labels', scope), labels = names.map((name) => [name, name]);
        const missing = found === null ? [['\0', `${this.ctx.label}: not recorded`]] : [];
        const service = chooseBox('service', [...missing, ['', 'all services'], ...services.map((one) => [one.name, one.name])], found ?? '\0', (sv) => sv !== '\0' && this.update(ofService(this.ctx, sv)));
        const filter = labelFilter(labels, (name) => this.ask(`labels/${encodeURIComponent(name)}`, scope).catch((error) => showError(this.errors, error)),
            (condition) => this.update({ sr: addCondition(getState('sr'), condition) }));
        const selector = h('input', { class: 'wide', value: what.selector, placeholder: "conditions: version = '1.4' AND host LIKE 'web-%'",
            'aria-label': 'conditions on labels', onchange: () => this.update({ sr: selector.value }) });
        const steps = STEPS.filter(([step]) => (until - from) / step <= MAX_STEPS && until - from >= 2 * step);
        this.controls.replaceChildren(h('div', { class: 'bar' }, service, recordedChoice(events, what.event, (ev) => this.update({ ev })), filter, selector,
            h('label', { title: 'where a value of this label appears or ends, the strip has a mark' }, 'mark changes of', chooseBox('label whose changes are marked', labels, getState('mk', 'version'), (mk) => this.update({ mk }))),
            h('a', { href: linkTo('heatmap', { sv: what.service, ev: what.event, sr: what.selector, ...(getState('ra') === '0' ? fixedRange(this.state) : { ra: getState('ra', '3600') }) }) }, 'Heat map')),
            h('div', { class: 'bar' }, rangeChoice((ra) => this.update({ ra, ...NO_RANGES })), this.timeInput('from', 'hf'), this.timeInput('until', 'hu'),
                button('Zoom in', () => this.zoom(...(this.graph.chosen()[0] ?? []))),
                button('Zoom out', () => this.zoom(from - (until - from) / 2, until + (until - from) / 2)),
                h('label', { title: 'how much time a bar of the strip stands for' }, 'bar length', choice('length of a bar', [['', 'Auto'], ...steps], getState('st'), (st) => this.update({ st })))));
    }

    timeInput(text, key) {
        const input = h('input', { type: 'datetime-local', 'aria-label': text, value: localTime(this.state[text]), onchange: () => {
            const time = new Date(input.value).getTime() / 1000;
            if (time) this.update({ ...fixedRange(this.state), [key]: time });
        } });
        return h('label', {}, text, input);
    }

    zoom(from, until) {
        const now = Date.now() / 1000;
        if (until) this.update({ ra: '0', hf: Math.floor(from / 10) * 10, hu: Math.ceil(Math.min(until, now) / 10) * 10 });
        else showError(this.errors, new Error('choose a range in the strip first'));
    }

    async drawStrip() {
        const { from, until, what, unit, divisor } = this.state, step = number(getState('st')) || (AUTO_STEPS.find((one) => (until - from) / one <= MAX_BARS) ?? 86400);
        const range = { ...what, from: Math.floor(from / step) * step, until, step }, { series: [one], completeness } = await this.ask('series', range);
        const values = one?.value.map((value) => pointValue(value, this.state, step)) ?? [], times = one?.timeUnixS.map(number) ?? [];
        Object.assign(this.strip, { unit, bars: divisor > 0 });
        const marks = one ? await this.marks(range) : [];
        this.strip.set({ from: range.from, until: Math.max(until, range.from + step), step, series: [{ times, values }], marks });
        this.drawMarkButtons(marks);
        const { windowsExpected: all, windowsReceived: found, recordingBeganUnixNs: began, lastUnixNs, windowS, openS, silences, samples, countedNs, sampledNs } = completeness, lacks = sampledNs < 0.9 * countedNs && sampledNs * (1 + 3 / Math.sqrt(+samples)) < +countedNs, time = (ns) => formatTime(ns / 1e9, true);
        const { firstUnixNs: first, lastUnixNs: last, trouble } = this.info;
        this.facts.textContent = (one ? [...recordedPart(from, until, (+began || +first) / 1e9), `${formatSeconds(step)} per bar`, `mean ${rateText(values.reduce((a, b) => a + b, 0) / values.length, unit)}`,
            `complete: ${percent(+found, +all)} of the windows${+began ? ` since ${time(began)}` : ''}${all - found > 0 ? ` (${all - found} missing)` : ''}`,
            `windows of ${windowS} s until ${time(lastUnixNs)}${openS ? `, ${openS} s still open` : ''}`, ...['samples', 'dropped'].map((key) => `${(+completeness[key]).toLocaleString('en')} ${key}`)]
            .concat(lacks ? [`${percent(+sampledNs, +countedNs)} of the CPU time that the kernel counted is in this answer`] : [])
            : ['nothing was recorded in this range', +last ? `history has ${rangeText(first / 1e9, last / 1e9)}` : 'history is empty'])
            .concat(silences.map((one) => `host ${one.host}: nothing ${rangeText(one.fromUnixNs / 1e9, one.untilUnixNs / 1e9)}`), `the store has ${formatValue(+this.info.sizeBytes, 'bytes')}`,
                trouble ? `nothing is stored now: ${trouble}` : []).join(' · ');
    }

    // Where the values of a label change, and what a watcher found.
    async marks(range) {
        const label = getState('mk', 'version'), { series } = await this.ask('series', { ...range, group_by: label, limit: 20 }), sets = new Map(), marks = [];
        for (const { labels: [{ value }], timeUnixS } of series) for (const time of timeUnixS) sets.set(number(time), [...(sets.get(number(time)) ?? []), value || 'none']);
        let before = null;
        for (const [time, values] of [...sets].sort((a, b) => a[0] - b[0])) {
            const gone = (before ?? []).filter((one) => !values.includes(one)), come = values.filter((one) => before && !before.includes(one));
            const text = gone.length && come.length ? `${gone.join(', ')} → ${come.join(', ')}` : [...come.map((one) => `${one} begins`), ...gone.map((one) => `${one} ends`)].join(', ');
            if (text) marks.push({ time, text: `${label} ${text}`, isNew: come.length > 0 });
            before = values;
        }
        const { service, from, until } = range, { changes = [] } = await this.ask('changes', { service, from, until }).catch((error) => (error.status === 501 ? {} : showError(this.errors, error) ?? {}));
        const found = changes.flatMap(({ untilUnixNs: at, functions: [one] }) => (one ? { time: at / 1e9, text: `${readableName(one.function)}: ${one.kind.slice(12).toLowerCase()}` } : []));
        return [marks, found].flatMap((all) => all.sort((a, b) => a.time - b.time).slice(-MAX_MARKS));
    }

    // The times before and after a new value appeared, of equal length, against each other.
    drawMarkButtons(marks) {
        const { from, until } = this.state;
        this.marked.replaceChildren(...marks.filter((one) => one.isNew).slice(-MARKS_OFFERED).map(({ time, text }) => {
            const length = Math.min(time - from, until - time);
            return button(`Compare before and after ${text} (${formatTime(time)})`, () => {
                this.graph.choose(time - length, time, true);
                this.graph.choose(time, time + length, false);
                this.graph.mark();
                this.showGraph();
            });
        }));
    }

    showGraph(isForced = false) {
        const { from, until, what, text, divisor } = this.state, length = until - from;
        const all = button(`Show all ${formatSeconds(length)}`, () => this.showGraph(true)), isLong = length > AUTO_GRAPH_S && !isForced;
        if (isLong && !this.graph.chosen()[0]) this.graph.clear(message('hint', 'Choose a range in the strip for its graph. ', all));
        else this.graph.show(`${what.service || 'all services'}, ${text}`, [from, until], !divisor);
    }
}

export const historyView = {
    name: 'history',
    title: 'History',
    async open(ctx) {
        const info = await getJson('/v1/history/info', { signal: ctx.signal }).catch((problem) => (problem.status === 501 ? null : Promise.reject(problem)));
        if (!info) return ctx.root.append(message('hint', 'History is off. Turn it on with `sonded --history`, or for one program with `sonde run --history -- COMMAND`. Then it is here.'));
        const view = new History(ctx, info);
        await view.update();
        return () => view.graph.viewer.destroy();
    },
};
