// SPDX-License-Identifier: Apache-2.0
// What was recorded: services, their CPU time or memory over time, graphs of ranges and of what changed between two of them.
import { getJson } from './api.js';
import { button, choice, formatSeconds, formatTime, formatValue, h, message, number, percent } from './dom.js';
import { loadProfile, showError } from './load.js';
import { getState, goTo, linkTo, setState } from './state.js';
import { createStrip, rangeText, rateText } from './strip.js';
import { createViewer } from './viewer.js';

// What was recorded, its unit, and what a step's sum is divided by: 1 = by the seconds of the step, 0 = not.
export const RECORDED = { 'on-cpu': ['CPU', 'cores', 1e9], 'off-cpu': ['Off-CPU', 'threads', 1e9], 'mem-alloc': ['Allocations', 'bytes/s', 1], 'mem-inuse': ['Live memory', 'bytes', 0] };
export const RANGES = [['3600', '1 h'], ['21600', '6 h'], ['86400', '1 d'], ['604800', '7 d']];
const STEPS = [['60', 'Minute'], ['3600', 'Hour'], ['86400', 'Day']];
export const MAX_STEPS = 11000;
const AUTO_STEPS = [10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400], MAX_BARS = 720, AUTO_GRAPH_S = 90000, SHOWN_SERVICES = 200, MAX_MARKS = 60;

export const quoteValue = (value) => `'${value.replace(/['\\]/g, '\\$&')}'`;
const quoteName = (name) => (/^[A-Za-z_][\w.]*$/.test(name) ? name : `\`${name}\``);
const inputTime = (seconds) => new Date((seconds - new Date(seconds * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 16);

// The parameters of a query; those without a value are left out.
export const historyQuery = (parameters) => Object.entries(parameters).filter(([, value]) => value).map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&');

// The chosen selection and times are in the URL. Times of a range that ends now are fixed when the view opens.
export function historyState() {
    const length = number(getState('ra', '3600')), now = Math.ceil(Date.now() / 10000) * 10;
    if (length && !window.SONDE_OFFLINE) setState({ hf: now - length, hu: now });
    return { from: number(getState('hf')), until: number(getState('hu')), select: { service: getState('sv'), event: getState('ev', 'on-cpu'), selector: getState('sr') } };
}

// A graph of the chosen range, or of the difference from the second one. A load that the next one overtakes is ended.
export class RangeGraph {
    constructor(ctx, pathOf, options) {
        Object.assign(this, { ctx, pathOf, place: h('div', { role: 'status' }), body: h('div') });
        ctx.root.append(this.place, this.body);
        this.viewer = createViewer(this.body, options);
    }

    // Values of the base are scaled to the length of the range; states, such as live memory, are not.
    async show(range, base, title, isState = false) {
        this.stop();
        const abort = this.abort = new AbortController(), scale = base && !isState ? (range[1] - range[0]) / (base[1] - base[0]) : 1;
        this.place.replaceChildren(h('p', { class: 'muted' }, 'loading the profile…'));
        try {
            const [now, old] = await Promise.all([range, base].map((one) => one && loadProfile(this.pathOf(...one), abort.signal)));
            if (old) old.values = old.values.map((values) => values.map((value) => Math.round(value * scale)));
            this.place.replaceChildren();
            this.body.hidden = false;
            this.viewer.show(now, { base: old, title, about: base ? [`compared with ${this.ctx.rangeText(...base)}, scaled to the same length`] : [] });
        } catch (error) {
            showError(this.place, error);
        }
    }

    // Without a graph, with something else in its place.
    clear(...instead) {
        this.stop();
        this.body.hidden = true;
        this.place.replaceChildren(...instead);
    }

    stop() {
        this.abort?.abort();
        delete this.place.dataset.text;
    }
}

export function historyIsOff(problem) {
    if (problem.status !== 501) throw problem;
    return message('hint', `History is off: ${problem.message}.`, h('p', {}, 'Turn it on with ', h('code', {}, 'sonded --history'), ', or for one program with ', h('code', {}, 'sonde run --history -- COMMAND'), '.'));
}

class History {
    constructor(ctx, info) {
        Object.assign(this, { ctx, info, controls: h('div'), errors: h('div'), facts: h('p', { class: 'muted' }), services: h('div'), functions: h('div') });
        ctx.root.append(this.controls, this.errors);
        this.strip = createStrip(ctx.root, { label: 'values over time', onselect: (from, until, isBase) => this.select(from, until, isBase) });
        ctx.root.append(this.facts, this.services);
        ctx.rangeText = rangeText;
        this.graph = new RangeGraph(ctx, (from, until) => `/v1/history/profile?${historyQuery({ ...this.state.select, from, until, output: 'proto' })}`, { name: 'history', empty: 'nothing was recorded here' });
        ctx.root.append(this.functionBox(), this.functions);
    }

    ask(path, parameters = {}, state = this.state) {
        return getJson(`/v1/history/${path}?${historyQuery({ from: state.from, until: state.until, ...parameters })}`, { signal: this.ctx.signal });
    }

    // After a change of anything but the chosen ranges.
    async update(changes = {}) {
        setState(changes, true);
        this.state = historyState();
        showError(this.errors, null);
        try {
            const { services } = await this.ask('services');
            this.chooseService(services);
            await this.drawControls(services);
            await this.drawStrip();
            this.showGraph();
        } catch (error) {
            this.graph.clear();
            showError(this.errors, error);
        }
    }

    chooseService(services) {
        const names = services.map((one) => one.name), { select } = this.state;
        if (!getState('sv') && (names.length === 1 || names.includes(this.ctx.target))) select.service = names.length === 1 ? names[0] : this.ctx.target;
        const row = (one) => h('tr', {}, h('td', {}, button(one.name, () => this.update({ sv: one.name }), { class: 'name' })), h('td', { class: 'number' }, formatSeconds(number(one.onCpuNs) / 1e9)),
            h('td', {}, one.events.map((event) => RECORDED[event]?.[0] ?? event).join(', ')), h('td', { class: 'number' }, one.hosts), h('td', { class: 'number' }, one.processes));
        const head = ['Service', 'CPU time', 'recorded', 'hosts', 'processes'], rows = [...services].sort((a, b) => number(b.onCpuNs) - number(a.onCpuNs)).slice(0, SHOWN_SERVICES).map(row);
        this.services.replaceChildren(...(select.service || !rows.length ? [] : [h('div', { class: 'tablebox' }, h('table', { class: 'list' }, h('thead', {}, h('tr', {}, head.map((text) => h('th', {}, text)))), h('tbody', {}, rows)))]),
            ...(services.length > rows.length ? [h('p', { class: 'muted' }, `${services.length - rows.length} more: choose them in the list above`)] : []));
    }

    async drawControls(services) {
        const { select } = this.state, events = services.find((one) => one.name === select.service)?.events ?? services.flatMap((one) => one.events), length = getState('ra', '3600');
        const condition = select.service ? { selector: `service = ${quoteValue(select.service)}` } : {}, { names } = await this.ask('labels', condition);
        const service = h('select', { 'aria-label': 'service', onchange: () => this.update({ sv: service.value, rf: null, ru: null, bf: null, bu: null }) }, h('option', { value: '' }, 'all services'),
            services.map((one) => h('option', { value: one.name, selected: one.name === select.service }, one.name)));
        const value = h('select', { 'aria-label': 'value of the label', hidden: true, onchange: () => this.addCondition(label.value, value.value) });
        const label = h('select', { 'aria-label': 'filter by a label', onchange: async () => {
            const { values, isCut } = await this.ask(`labels/${encodeURIComponent(label.value)}`, condition);
            value.replaceChildren(h('option', {}, isCut ? 'the first values…' : 'value…'), ...values.map((one) => h('option', { value: one }, one || '(none)')));
            value.hidden = false;
        } }, h('option', { disabled: true, selected: true }, 'filter by label…'), names.map((name) => h('option', {}, name)));
        const selector = h('input', { class: 'wide', value: select.selector, placeholder: "conditions: version = '1.4' AND host LIKE 'web-%'", 'aria-label': 'conditions on labels', onchange: () => this.update({ sr: selector.value }) });
        const from = this.timeInput('from', 'hf'), until = this.timeInput('until', 'hu');
        const marks = h('select', { 'aria-label': 'label whose changes are marked', onchange: () => this.update({ mk: marks.value }) }, names.map((name) => h('option', { selected: name === getState('mk', 'version') }, name)));
        const steps = STEPS.filter(([step]) => (this.state.until - this.state.from) / step <= MAX_STEPS && this.state.until - this.state.from >= 2 * step);
        const kinds = Object.entries(RECORDED).filter(([event]) => events.includes(event) || event === select.event).map(([event, [text]]) => [event, text]);
        this.controls.replaceChildren(h('div', { class: 'bar' }, service, choice('what was recorded', kinds, select.event, (ev) => this.update({ ev })), label, value, selector),
            h('div', { class: 'bar' }, choice('range', RANGES, length, (ra) => this.update({ ra, rf: null, ru: null, bf: null, bu: null })), h('label', {}, 'from', from), h('label', {}, 'until', until),
                button('Zoom in', () => this.zoom(0), { title: 'to the chosen range' }), button('Zoom out', () => this.zoom(1)), button('Refresh', () => this.update()),
                choice('length of a bar', [['', 'Auto'], ...steps], getState('st'), (st) => this.update({ st })), h('label', {}, 'mark changes of', marks)));
    }

    timeInput(text, key) {
        const input = h('input', { type: 'datetime-local', 'aria-label': text, value: inputTime(this.state[text]), onchange: () => {
            const time = new Date(input.value).getTime() / 1000;
            if (time) this.update({ ra: '0', [key]: time });
        } });
        return input;
    }

    addCondition(name, value) {
        const condition = `${quoteName(name)} = ${quoteValue(value)}`, old = getState('sr');
        this.update({ sr: old.startsWith('{') || !old ? condition : `${/\bor\b/i.test(old) ? `(${old})` : old} AND ${condition}` });
    }

    zoom(isOut) {
        const { from, until } = this.state, half = (until - from) / 2, [a, b] = isOut ? [from - half, Math.min(until + half, Date.now() / 1000)] : [number(getState('rf')), number(getState('ru'))];
        if (b > a) this.update({ ra: '0', hf: Math.floor(a / 10) * 10, hu: Math.ceil(b / 10) * 10 });
        else showError(this.errors, { message: 'choose a range in the strip first', isSentence: true });
    }

    async drawStrip() {
        const { from, until, select } = this.state, [, unit, divisor] = RECORDED[select.event] ?? RECORDED['on-cpu'], length = until - from;
        const step = number(getState('st')) || (AUTO_STEPS.find((one) => length / one <= MAX_BARS) ?? 86400), begin = Math.floor(from / step) * step;
        const range = { ...select, from: begin, until, step }, { series: [one], completeness } = await this.ask('series', range);
        const values = (one?.value ?? []).map((value) => number(value) / (divisor ? step * divisor : 1)), times = (one?.timeUnixS ?? []).map(number);
        Object.assign(this.strip, { unit, bars: select.event !== 'mem-inuse' });
        this.strip.set({ from: begin, until: Math.max(until, begin + step), step, series: [{ times, values }], marks: one ? await this.marks(range) : [] });
        this.restoreRanges();
        const missing = number(completeness.windowsExpected) - number(completeness.windowsReceived), sum = values.reduce((all, value) => all + value, 0);
        this.facts.textContent = !one ? `Nothing was recorded in this range. History has ${rangeText(number(this.info.firstUnixNs) / 1e9, number(this.info.lastUnixNs) / 1e9)}.`
            : `${formatSeconds(step)} per bar · mean ${rateText(sum / values.length, unit)} · complete: ${percent(number(completeness.windowsReceived), number(completeness.windowsExpected))} of the windows`
            + `${missing > 0 ? ` (${missing.toLocaleString('en')} are missing)` : ''} · ${number(completeness.samples).toLocaleString('en')} samples, ${number(completeness.dropped).toLocaleString('en')} dropped · `
            + `the store has ${formatValue(number(this.info.sizeBytes), 'bytes')}${this.info.trouble ? ` · nothing is stored now: ${this.info.trouble}` : ''}`;
    }

    // Where the set of a label's values changes.
    async marks(range) {
        const label = getState('mk', 'version'), { series } = await this.ask('series', { ...range, group_by: label, limit: 20 }), sets = new Map(), marks = [];
        for (const { labels: [{ value }], timeUnixS } of series) for (const time of timeUnixS) sets.set(number(time), [...(sets.get(number(time)) ?? []), value || 'none']);
        let before = null;
        for (const [time, values] of [...sets].sort((a, b) => a[0] - b[0])) {
            const text = values.sort().join(', ');
            if (before !== null && text !== before) marks.push({ time, text: `${label} ${before} → ${text}` });
            before = text;
        }
        return marks.slice(-MAX_MARKS);
    }

    restoreRanges() {
        this.strip.clear();
        if (getState('ru')) this.strip.select(number(getState('rf')), number(getState('ru')));
        if (getState('bu')) this.strip.selectBase(number(getState('bf')), number(getState('bu')));
    }

    select(from, until, isBase) {
        setState(from === null ? { rf: null, ru: null, bf: null, bu: null } : isBase ? { bf: from, bu: until } : { rf: from, ru: until }, true);
        this.showGraph();
    }

    showGraph(isForced = false) {
        const { from, until, select } = this.state, chosen = getState('ru') ? [number(getState('rf')), number(getState('ru'))] : null, base = getState('bu') ? [number(getState('bf')), number(getState('bu'))] : null;
        const range = chosen ?? [from, until], text = `${select.service || 'all services'}, ${RECORDED[select.event]?.[0] ?? select.event}, ${rangeText(...range)}`;
        if (!chosen && !isForced && until - from > AUTO_GRAPH_S) this.graph.clear(message('hint', 'Choose a range in the strip for its graph. ', button(`Show all ${formatSeconds(until - from)}`, () => this.showGraph(true))));
        else this.graph.show(range, base, base ? `${text} against ${rangeText(...base)}` : text, select.event === 'mem-inuse');
    }

    functionBox() {
        const input = h('input', { class: 'wide', value: getState('fn'), placeholder: 'SSL_* or match_rules', 'aria-label': 'function', onchange: () => this.findFunction(input.value) });
        return h('form', { class: 'bar panel', onsubmit: (event) => event.preventDefault() }, h('label', {}, 'Which services spend time in', input), h('button', { onclick: () => this.findFunction(input.value) }, 'Find'),
            h('a', { href: linkTo('heatmap', { sv: getState('sv') }) }, 'Heat map'));
    }

    async findFunction(name) {
        setState({ fn: name });
        if (!name) return this.functions.replaceChildren();
        const { event, selector } = this.state.select;
        try {
            const { services, unit, omitted } = await this.ask('function', { function: name, event, selector, limit: SHOWN_SERVICES });
            const row = (one) => h('tr', {}, h('td', {}, button(one.service, () => goTo('history', { sv: one.service, q: name.replaceAll('*', '.*'), ev: event }), { class: 'name' })),
                [number(one.self), number(one.total)].map((value) => h('td', { class: 'number' }, `${formatValue(value, unit)}  ${percent(value, number(one.serviceTotal))}`)));
            const head = h('tr', {}, ['Service', 'in the function itself', 'with all that it calls'].map((text) => h('th', {}, text)));
            this.functions.replaceChildren(services.length ? h('div', { class: 'tablebox' }, h('table', { class: 'list' }, h('thead', {}, head), h('tbody', {}, services.map(row)))) : message('hint', 'no service has such a function on a stack in this range; * stands for any characters'),
                number(omitted) ? h('p', { class: 'muted' }, `${omitted} more services`) : '');
        } catch (error) {
            showError(this.functions, error);
        }
    }
}

export const historyView = {
    name: 'history',
    title: 'History',
    needsTarget: false,
    async open(ctx) {
        const info = await getJson('/v1/history/info', { signal: ctx.signal }).catch(historyIsOff);
        if (info instanceof Node) return ctx.root.append(info);
        const view = new History(ctx, info);
        await view.update();
        if (getState('fn')) view.findFunction(getState('fn'));
        return () => view.graph.viewer.destroy();
    },
};
