// SPDX-License-Identifier: Apache-2.0
// Samples while they are taken: a stream of windows becomes a graph that grows, and a strip of the last minutes from which ranges are
// chosen. The stream goes on when the picture is paused, and is opened again when it breaks off.
import { isOffline, lines } from './api.js';
import { button, choice, formatSeconds, h, message, number, percent } from './dom.js';
import { MODES } from './events.js';
import { loadProfile, sleep } from './load.js';
import { KIND, Profile } from './profile.js';
import { getState, setState } from './state.js';
import { createStrip, rangeText } from './strip.js';
import { createViewer } from './viewer.js';

const WINDOW_MS = 250, KEEP_S = 600, KEEP_WINDOWS = KEEP_S * 1000 / WINDOW_MS, REDRAW_MS = 400, MAX_WAIT_S = 8, SMOOTHED = 2;
const LIVE_MODES = MODES.map(({ mode, title }) => [mode, title]);
const LIVE_RATES = [['19', '19 Hz'], ['99', '99 Hz'], ['499', '499 Hz'], ['999', '999 Hz']];
const STREAM_ENDS = { 'target gone': 'The target has exited.', 'dictionary full': 'The service has sent all the names that a stream may have.' };
const FINAL_STATUS = [400, 401, 403, 501];
// A control that is pressed or chosen with the keyboard is not drawn again meanwhile.
const IN_USE = ':active, .tablebox :focus';

// The last windows of one or more streams. Names, frames and stacks of a stream are sent once and then referred to by number.
class LiveWindows {
    constructor(mode) {
        Object.assign(this, { names: new Profile([]), types: [{ type: 'samples', unit: 'count' }, { type: mode.replace('-', '_'), unit: 'nanoseconds' }] });
        Object.assign(this, { list: [], sums: new Map(), gaps: [], forgotten: 0, merged: 0, clock: '' });
        this.begin();
    }

    begin() {
        Object.assign(this, { strings: [], frames: [], stacks: [], part: [], isNew: true });
    }

    addFrame({ function: fn, file, line, module, address, kind, inlined }) {
        const text = (at) => (at ? this.strings[at - 1] : ''), name = this.strings[fn] || `[${text(module)}]+0x${BigInt(address).toString(16)}`;
        this.frames.push([this.names.addFunction(name, text(module), text(file), KIND[kind] ?? KIND.UNKNOWN), line, file, inlined]);
    }

    // A function that was inlined into one of its name and file is one frame with it, as in pprof.js.
    addStack({ frames, thread, tid }) {
        const isOwn = ([fn, , file, inlined], i, all) => !(inlined && file && all[i + 1]?.[0] === fn && all[i + 1][2] === file);
        this.stacks.push({ frames: frames.map((at) => this.frames[at]).filter(isOwn).reverse(), thread: thread ? this.names.addThread(this.strings[thread - 1]) : 0, tid });
    }

    // Takes a line of the stream. True if it completes a window.
    add(line) {
        this.strings.push(...line.strings);
        line.frames.forEach((frame) => this.addFrame(frame));
        line.stacks.forEach((stack) => this.addStack(stack));
        for (const { stack, count, cpuNs } of line.counts) this.part.push([this.stacks[stack], number(count), number(cpuNs)]);
        if (line.more) return false;
        const from = number(line.startUnixNs) / 1e9, until = number(line.endUnixNs) / 1e9, last = this.list.at(-1);
        if (this.isNew && last && from > last.until) this.gaps.push([last.until, from]);
        this.list.push({ from, until, counts: this.part, ns: this.part.reduce((sum, one) => sum + one[2], 0), drops: line.drops, own: number(line.guestCpuNs), cpu: number(line.targetCpuNs) });
        this.sum(this.part, 1);
        Object.assign(this, { part: [], isNew: false, merged: this.merged + line.merged, clock: line.clock });
        while (this.list.length > KEEP_WINDOWS || this.list[0].from < until - KEEP_S) this.forget();
        return true;
    }

    forget() {
        this.sum(this.list.shift().counts, -1);
        this.forgotten++;
        this.gaps = this.gaps.filter((gap) => gap[1] > this.list[0].from);
    }

    sum(counts, sign, sums = this.sums) {
        for (const [stack, samples, ns] of counts) {
            const both = sums.get(stack) ?? [0, 0];
            both[0] += sign * samples;
            both[1] += sign * ns;
            if (both[0] > 0) sums.set(stack, both);
            else sums.delete(stack);
        }
    }

    // The profile of a range, or of all windows.
    profile(range) {
        const profile = Object.assign(new Profile(this.types), { functions: this.names.functions, threads: this.names.threads }), sums = range ? new Map() : this.sums;
        const windows = range ? this.list.filter(({ from }) => from >= range[0] && from < range[1]) : this.list;
        if (range) windows.forEach(({ counts }) => this.sum(counts, 1, sums));
        for (const [{ frames, thread, tid }, both] of sums) {
            for (const [fn, line] of frames) {
                profile.frame.push(fn);
                profile.line.push(line);
            }
            profile.endStack(both, thread, tid);
        }
        const [first, last] = [windows[0], windows.at(-1)];
        return first ? Object.assign(profile, { timeNanos: first.from * 1e9, durationNanos: (last.until - first.from) * 1e9, covered: [first.from, last.until] }) : profile;
    }

    strip() {
        const until = this.list.at(-1)?.until ?? Date.now() / 1000, span = [60, 120, 300, KEEP_S].find((one) => one >= until - (this.list[0]?.from ?? until)) ?? KEEP_S;
        const series = { times: this.list.map((one) => one.from), ends: this.list.map((one) => one.until), values: this.list.map((one, i) => this.rate(one, i)) };
        return { from: until - span, until, step: WINDOW_MS / 1000, series: [series], gaps: this.gaps };
    }

    // Samples arrive late and in batches, and a blocked thread is only known when it goes on. So a value is the mean of a second: windows on
    // both sides, without a gap between them.
    rate(window, at) {
        if (window.rate !== undefined) return window.rate;
        let time = 0, ns = 0;
        const near = this.list.slice(Math.max(0, at - SMOOTHED), at + SMOOTHED + 1).filter((one) => !this.gaps.some(([from]) => from >= Math.min(one.from, window.from) && from < Math.max(one.from, window.from)));
        for (const { from, until, ns: sum } of near) [time, ns] = [time + until - from, ns + sum];
        const rate = ns / 1e9 / Math.max(time, 1e-3);
        if (at + SMOOTHED < this.list.length) window.rate = rate;
        return rate;
    }

    facts() {
        const drops = {}, sum = (key) => this.list.reduce((all, one) => all + one[key], 0);
        for (const one of this.list) for (const { cause, count } of one.drops) drops[cause] = (drops[cause] ?? 0) + number(count);
        const samples = [...this.sums.values()].reduce((all, both) => all + both[0], 0);
        const lost = Object.entries(drops).map(([cause, count]) => `${count.toLocaleString('en')} dropped (${cause})`);
        return [`${samples.toLocaleString('en')} samples`, ...(lost.length ? lost : ['0 dropped']), `cost ${percent(sum('own'), sum('cpu'))}`, `clock ${this.clock || 'not known yet'}`,
            this.merged && `${this.merged} windows merged: this browser reads slowly`].filter(Boolean).join(' · ');
    }
}

class Live {
    constructor(ctx) {
        Object.assign(this, { ctx, isPaused: false, timer: 0, place: h('div', { role: 'status' }), facts: h('p', { class: 'muted' }), kept: h('p', { class: 'muted' }) });
        this.pause = button('Pause', () => this.setPaused(!this.isPaused), { 'aria-pressed': 'false', title: 'stop the picture; the stream goes on' });
        const choose = (label, choices, key, first) => choice(label, choices, getState(key, first), (value) => {
            setState({ [key]: value });
            this.restart();
        });
        ctx.root.append(h('div', { class: 'bar' }, choose('what is sampled', LIVE_MODES, 'mode', 'cpu'),
            choose('samples per second and thread', LIVE_RATES, 'rate', '99'), this.pause), this.place);
        this.viewer = createViewer(ctx.root, { name: `${ctx.target || 'target'}-live`, empty: 'no samples yet: the target is idle; if it is not, run `sonde doctor`' });
        this.foot = h('div', { class: 'live-foot' });
        this.strip = createStrip(this.foot, { label: 'the last minutes', onselect: (from, until, isBase) => this.select(from, until, isBase) });
        this.foot.append(this.facts, this.kept);
        ctx.root.append(this.foot);
        // A page that was left may stay in the browser's memory with its streams open.
        window.addEventListener('pagehide', () => this.abort?.abort(), { signal: ctx.signal });
        window.addEventListener('pageshow', (event) => event.persisted && this.restart(), { signal: ctx.signal });
    }

    // Begins again with the mode and the rate of the URL.
    restart() {
        this.abort?.abort();
        if (this.isPaused) this.setPaused(false);
        const mode = getState('mode', 'cpu'), abort = new AbortController();
        Object.assign(this, { mode, abort, rate: getState('rate', '99'), windows: new LiveWindows(mode), ranges: [null, null], next: 0 });
        this.strip.clear();
        this.strip.unit = mode === 'cpu' ? 'cores' : 'threads';
        this.follow(abort.signal);
    }

    close() {
        this.abort?.abort();
        clearTimeout(this.timer);
        this.viewer.destroy();
    }

    setPaused(isPaused) {
        this.isPaused = isPaused;
        this.pause.setAttribute('aria-pressed', String(isPaused));
        this.pause.textContent = isPaused ? 'Continue' : 'Pause';
        this.draw();
    }

    select(from, until, isBase) {
        if (from === null) this.ranges = [null, null];
        else this.ranges[isBase ? 1 : 0] = [from, until];
        this.draw(true);
    }

    onLine(line) {
        if (line.code) this.end ||= line.message;
        if (line.code) return;
        if (line.last) this.end = line.endReason;
        if (this.windows.add(line)) this.schedule();
        if (this.place.firstChild) this.place.replaceChildren();
    }

    // Draws soon, but never takes more than a fourth of the browser's time.
    schedule() {
        if (this.timer || document.hidden) return;
        this.timer = setTimeout(() => {
            const begin = performance.now();
            this.timer = 0;
            if (!this.viewer.element.querySelector(IN_USE)) this.draw();
            this.next = performance.now() + Math.max(REDRAW_MS, 3 * (performance.now() - begin));
        }, Math.max(0, this.next - performance.now()));
    }

    // The graph of a chosen range is only drawn when the choice changes.
    draw(isNewRange = false) {
        const { windows, ranges } = this, isIdle = !windows.sums.size && windows.list.length < 8;
        if (this.isPaused && !isNewRange) return;
        if (!this.isPaused) this.strip.set(windows.strip());
        if (!this.isPaused) this.facts.textContent = windows.facts();
        const count = (value) => value.toLocaleString('en'), older = `${count(windows.forgotten)} older ones are gone: take a capture to keep more.`;
        this.kept.textContent = windows.forgotten ? `The last ${formatSeconds(KEEP_S)} are kept here, ${count(windows.list.length)} windows. ${older}` : '';
        if (isIdle || ((ranges[0] || ranges[1]) && !isNewRange)) return;
        const profile = windows.profile(ranges[0]), base = ranges[1] && windows.profile(ranges[1]);
        if (ranges[0] && !profile.covered) this.place.replaceChildren(message('hint', 'the windows of that range are gone: choose a later one'));
        const [span, other] = [profile, base].map((one) => one && (one.covered ? rangeText(...one.covered) : 'nothing'));
        const title = `${this.ctx.label || 'target'}, ${LIVE_MODES.find(([mode]) => mode === this.mode)?.[1] ?? this.mode}, ${span}`;
        this.viewer.show(profile, { base, title: other ? `${title} against ${other}` : title, about: [this.facts.textContent] });
    }

    async follow(signal) {
        const { ctx, mode, rate } = this, path = `${ctx.prefix}/v1/cpu/live?window=${WINDOW_MS}&frequency=${rate}&mode=${mode}`;
        for (let wait = 1; !signal.aborted; wait = Math.min(2 * wait, MAX_WAIT_S)) {
            let problem = null;
            this.windows.begin();
            this.end = '';
            await lines(path, { signal, onLine: (line) => signal.aborted || this.onLine(line) }).catch((error) => { problem = error; });
            if (signal.aborted) return;
            if (!this.windows.isNew) wait = 1;
            if (FINAL_STATUS.includes(problem?.status)) return this.place.replaceChildren(message('error', problem.message, ' ', button('Try again', () => this.restart())));
            const why = problem ? problem.message.replace(/[^.?!]$/, '$&.') : STREAM_ENDS[this.end] ?? (this.end ? `The stream ended: ${this.end}.` : 'The connection to the gateway broke off.');
            this.place.replaceChildren(message('error', `${why} What was received stays. Connecting again, next try in ${wait} s.`));
            await sleep(wait * 1000);
        }
    }
}

export const liveView = {
    name: 'live',
    title: 'Live',
    needsTarget: true,
    async open(ctx) {
        const live = new Live(ctx);
        if (isOffline()) live.viewer.show(await loadProfile('/offline/live.pb'), { base: await loadProfile('/offline/live-base.pb').catch(() => null), title: window.SONDE_OFFLINE.title });
        else live.restart();
        return () => live.close();
    },
};
