// SPDX-License-Identifier: Apache-2.0
// Memory of the target: the switch, what is in use, what grew between two moments, what is allocated in some seconds, and the dumps.
import { getJson, getText, isOffline, send } from './api.js';
import { button, choice, formatSeconds, formatTime, formatValue, h, message, number } from './dom.js';
import { attempt, form, loadProfile, numberInput, repeat, select, withProgress } from './load.js';
import { address, getState, setState } from './state.js';
import { createViewer } from './viewer.js';

const HEAP_MS = 5000, YOUNG_S = 60, SAMPLERS = { '': 'the best sampler', jemalloc: 'jemalloc\'s profiler', interposed: 'Sonde\'s sampler' };
const HEAP_PARTS = [['live', 'In use', 'what is in use now'], ['growth', 'Growth', 'what changed between two moments'],
    ['allocs', 'Allocations', 'what is allocated, whether or not it is freed'], ['dumps', 'Dumps', 'what was written from time to time']];
const AGES = [['', 'of any age'], ['10', '10 s and older'], ['60', '1 min and older'], ['600', '10 min and older'], ['3600', '1 h and older']];
const DUMP_FORMATS = [['heapsnapshot', '.heapsnapshot'], ['jemalloc', '.heap']];
const rememberedHeaps = new Map(); // by target: { time, profile }

const heapFacts = (heap) => Object.entries({
    state: heap.active ? `on since ${formatTime(number(heap.activeSinceUnixNs) / 1e9, true)}${heap.owner ? `, by ${heap.owner}` : ''}` : 'off',
    'sampled by': SAMPLERS[heap.backend.toLowerCase()] ?? 'nothing',
    'one sample per': number(heap.sampleBytes) && formatValue(number(heap.sampleBytes), 'bytes'),
    dumps: (heap.intervalS || heap.dumps) && `${heap.intervalS ? `every ${formatSeconds(heap.intervalS)}, ` : ''}${heap.dumps} kept, ${formatValue(number(heap.dumpBytes), 'bytes')}`,
    lost: number(heap.dropped) && `${heap.dropped} samples that did not fit`,
    failures: heap.dumpFailures && `${heap.dumpFailures} dumps: ${heap.lastFailure}`,
}).filter(([, text]) => text).map(([name, text]) => [h('dt', {}, name), h('dd', {}, text)]).flat();

class HeapPage {
    constructor({ root, signal, prefix, target }) {
        Object.assign(this, { signal, prefix, target, state: {}, errors: h('div'), stateErrors: h('div'), tools: h('div', { class: 'bar' }), list: h('div'), graph: h('div', { hidden: true }), refused: h('div') });
        this.panel = h('section', { class: 'panel', 'aria-label': 'heap profiling' });
        const parts = this.parts = choice('what to show', HEAP_PARTS, this.part, (show) => {
            setState({ show, dump: null, from: null }, true);
            this.open();
        });
        root.append(...(isOffline() ? [] : [this.stateErrors, this.refused, this.panel, h('div', { class: 'bar' }, parts), this.tools]), this.errors, this.list, this.graph);
        this.viewer = createViewer(this.graph, { empty: 'no samples: nothing that was sampled is in use', name: `${target}-heap` });
    }

    get part() {
        return getState('show', 'live');
    }

    try(work) {
        return attempt(this.errors, this.signal, work);
    }

    // ---- The switch ----

    // The form stays as it is while the state does.
    async update() {
        const before = this.state, state = await getJson(`${this.prefix}/v1/heap`, { signal: this.signal }).catch((problem) => (problem.status === 501 ? { refusal: problem.message } : Promise.reject(problem)));
        this.state = state;
        for (const one of [this.panel, this.parts, this.tools, this.list]) one.hidden = Boolean(state.refusal);
        this.graph.hidden ||= Boolean(state.refusal);
        this.refused.replaceChildren(state.refusal ? message('hint', state.refusal) : '');
        if (state.refusal) return;
        if (this.panel.firstChild) this.panel.firstChild.replaceChildren(...heapFacts(state));
        if (before.active === state.active && before.note === state.note) return this.isYoung() && this.part === 'live' ? this.openLive() : undefined;
        const deletes = h('input', { type: 'checkbox' });
        this.panel.replaceChildren(h('dl', { class: 'facts' }, heapFacts(state)), state.note ? message('hint', state.note) : '', state.active
            ? h('div', { class: 'bar' }, button('Turn off', () => this.turn(`active=false${deletes.checked ? '&delete_dumps=true' : ''}`)), h('label', {}, deletes, 'and delete the dumps'))
            : form('Turn on', (query) => this.turn(`active=true&${query}`), select('backend', 'sampler', Object.entries(SAMPLERS), ''),
                numberInput('interval', 'a dump every', 0, 0, 86400, 's'), numberInput('sample_bytes', 'one sample per', null, 4096, 2 ** 40, 'bytes')));
        await this.open();
    }

    // A profile that has just begun is read again by itself, but not under the user's hands.
    isYoung() {
        const { active, activeSinceUnixNs: since } = this.state, isInUse = this.graph.matches(':hover, :focus-within') && !this.graph.querySelector('.message');
        return active && !isInUse && Date.now() / 1000 - number(since) / 1e9 < YOUNG_S;
    }

    turn(query) {
        return this.try(async () => {
            await send('PUT', `${this.prefix}/v1/heap?${query}`);
            await this.update();
        });
    }

    // ---- Profiles ----

    read(query = '') {
        return loadProfile(`${this.prefix}/debug/pprof/heap?output=proto${query}`, this.signal);
    }

    show(profile, title, base = null) {
        this.graph.hidden = false;
        this.viewer.show(profile, { base, title });
    }

    downloads(query = '') {
        return DUMP_FORMATS.map(([format, extension]) => h('a', { href: address(`${this.prefix}/debug/pprof/heap?output=${format}${query}`),
            download: `${this.target}${extension}` }, extension));
    }

    async open() {
        const parts = { live: () => this.openLive(), growth: () => this.openGrowth(), allocs: () => this.openAllocs(), dumps: () => this.openDumps() };
        const needsSwitch = !this.state.active && this.part !== 'allocs';
        this.list.replaceChildren(needsSwitch ? message('hint', 'heap profiling is off: turn it on to see which code holds memory. Allocations need no switch.') : '');
        this.tools.replaceChildren();
        this.graph.hidden = true;
        if (!needsSwitch) await this.try(parts[this.part] ?? parts.live);
    }

    async openLive() {
        const age = select(null, 'age', AGES, getState('older'), () => {
            setState({ older: age.value });
            this.open();
        }), isOurs = this.state.backend === 'INTERPOSED';
        this.tools.replaceChildren(button('Read again', () => this.open()), isOurs ? age : '', ...this.downloads());
        this.show(await this.read(isOurs && getState('older') ? `&older_than=${getState('older')}` : ''), `In use at ${formatTime(Date.now() / 1000, true)}`);
    }

    openGrowth() {
        const old = rememberedHeaps.get(this.prefix), rememberHeap = async () => {
            rememberedHeaps.set(this.prefix, { time: Date.now() / 1000, profile: await this.read() });
        }, compare = async () => {
            const { time, profile } = rememberedHeaps.get(this.prefix);
            this.show(await this.read(), `Growth from ${formatTime(time, true)} to ${formatTime(Date.now() / 1000, true)}`, profile);
        };
        this.tools.replaceChildren(button('Remember now', () => this.try(() => rememberHeap().then(() => this.openGrowth()))),
            old ? button(`Growth since ${formatTime(old.time, true)}`, () => this.try(compare)) : '');
    }

    openAllocs() {
        const place = h('span', { class: 'bar' });
        this.tools.replaceChildren(form('Record allocations', (query) => place.firstChild || this.try(async () => {
            const seconds = Number(new URLSearchParams(query).get('seconds'));
            this.show(await withProgress(place, seconds, loadProfile(`${this.prefix}/debug/pprof/allocs?output=proto&${query}`, this.signal)), `Allocations in ${seconds} s`);
        }), numberInput('seconds', 'for', 5, 1, 3600, 's'), numberInput('interval', 'one sample per', 524288, 1, 2 ** 30, 'bytes')), place);
    }

    async openDumps() {
        const dumps = (await getText(`${this.prefix}/debug/pprof/heap_list`)).split('\n').filter(Boolean).map((line) => line.split('\t\t'));
        const openDump = (dump, from) => this.try(async () => {
            setState({ dump, from });
            const [now, base] = await Promise.all([this.read(`&name=${dump}`), from && this.read(`&name=${from}`)]);
            this.show(now, from ? `${dump} against ${from}` : dump, base || null);
        });
        this.list.replaceChildren(dumps.length ? h('div', { class: 'scroll' }, h('table', { class: 'list' }, dumps.map(([name, time], i) => h('tr', {}, h('td', {}, name), h('td', {}, time),
            h('td', {}, h('span', { class: 'bar' }, button('Open', () => openDump(name)), dumps[i + 1] ? button('Since the one before', () => openDump(name, dumps[i + 1][0])) : '',
                ...this.downloads(`&name=${name}`)))))))
            : message('hint', 'no dumps: turn heap profiling off and on again with a time between dumps'));
        if (getState('dump')) await openDump(getState('dump'), getState('from'));
    }
}

export const heapView = {
    name: 'heap',
    title: 'Memory',
    needsTarget: true,
    async open(ctx) {
        const page = new HeapPage(ctx);
        if (isOffline()) page.show(await loadProfile('/offline/heap.pb'), window.SONDE_OFFLINE.title, await loadProfile('/offline/heap-base.pb').catch(() => null));
        else repeat(page.stateErrors, ctx.signal, HEAP_MS, () => page.update());
        return () => page.viewer.destroy();
    },
};
