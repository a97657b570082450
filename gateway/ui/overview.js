// SPDX-License-Identifier: Apache-2.0
// What history has of the last day: a row per service, or per value of a label, with its CPU time and what takes it. Rows lead to
// the history of that service. The columns are answers of the documented paths that `sonde history` asks, too.
import { getJson } from './api.js';
import { button, drawBars, formatValue, h, message, number } from './dom.js';
import { addCondition, chooseBox, historyPath, quoteName, quoteValue } from './history.js';
import { sleep } from './load.js';
import { readableName } from './names.js';
import { address, getState, linkTo, setState } from './state.js';

const REFRESH_MS = 60000, DAY_S = 86400, STEP_S = 1800, NOW_S = 60, ROWS = 10, SERIES = 200, TOP_ROWS = 10, BARS = [144, 22];

const labelValue = (one) => one.labels[0]?.value ?? '';
const byLabel = (series) => new Map(series.map((one) => [labelValue(one), one]));

export class Overview {
    constructor(signal) {
        Object.assign(this, { signal, limit: ROWS, tops: new Map(), rows: [], canvases: new Map() });
        this.label = h('span');
        this.note = h('span', { class: 'muted' });
        this.body = h('tbody');
        this.head = h('tr');
        this.more = h('p');
        this.element = h('section', { class: 'overview', hidden: true }, h('div', { class: 'bar' }, h('h2', {}, 'Recorded, last 24 hours'), this.label, this.note),
            h('table', { class: 'list' }, h('thead', {}, this.head), this.body), this.more);
    }

    get by() {
        return getState('by', 'service');
    }

    ask(path, parameters) {
        return getJson(historyPath(path, parameters), { signal: this.signal });
    }

    async follow() {
        await getJson('/v1/history/info', { signal: this.signal });
        await this.update();
        for (await sleep(REFRESH_MS); !this.signal.aborted; await sleep(REFRESH_MS)) if (!document.hidden) await this.update().catch(() => {});
    }

    async update() {
        const now = Math.floor(Date.now() / 1000 / 10) * 10, begin = Math.floor((now - DAY_S) / STEP_S) * STEP_S, { by } = this, group = { group_by: by, limit: SERIES };
        const series = (parameters) => this.ask('series', { ...group, ...parameters }).then((answer) => answer.series ?? []);
        const [day, last, memory, { services = [] }, { names }] = await Promise.all([series({ from: begin, until: now, step: STEP_S }),
            series({ from: now - NOW_S - 10, until: now - 10, step: 10 }), series({ from: now - 600, until: now, step: 60, event: 'mem-inuse' }),
            by === 'service' ? this.ask('services', { from: begin, until: now }) : {}, this.ask('labels', { from: begin, until: now })]);
        const recent = byLabel(last), bytes = byLabel(memory), facts = new Map(services.map((one) => [one.name, one])), sum = (one) => (one?.value ?? []).reduce((all, value) => all + number(value), 0);
        this.rows = day.map((one) => ({ name: labelValue(one), seconds: sum(one) / 1e9, now: sum(recent.get(labelValue(one))) / 1e9 / NOW_S, memory: number(bytes.get(labelValue(one))?.value.at(-1)),
            facts: facts.get(labelValue(one)), bars: one.timeUnixS.map((time, i) => ({ from: (time - begin) / (now - begin), to: (number(time) + STEP_S - begin) / (now - begin), value: one.value[i] / 1e9 / STEP_S })) }))
            .sort((a, b) => b.seconds - a.seconds);
        this.element.hidden = !this.rows.length;
        this.label.replaceChildren(chooseBox('group by', names.map((name) => [name, `by ${name}`]), by, (value) => {
            setState({ by: value === 'service' ? null : value }, true);
            this.limit = ROWS;
            this.update().catch((error) => this.more.replaceChildren(message('error', error.message)));
        }));
        this.draw();
        await this.findTops(now);
    }

    draw() {
        const shown = this.rows.slice(0, this.limit), hasMemory = shown.some((one) => one.memory), hasFacts = this.by === 'service';
        const top = Math.max(0.01, ...shown.flatMap((one) => one.bars.map((bar) => bar.value)));
        this.note.textContent = `bars: half an hour each, all rows on one scale, up to ${top.toFixed(2)} cores`;
        this.head.replaceChildren(h('th', {}, this.by === 'service' ? 'Service' : this.by), ...['CPU now', 'CPU over the day', 'Hottest function', hasMemory && 'Memory', hasFacts && 'Hosts', hasFacts && 'Processes']
            .filter(Boolean).map((text) => h('th', { class: /now|Memory|Hosts|Proc/.test(text) ? 'number' : null }, text)));
        this.body.replaceChildren(...shown.map((one) => this.row(one, top, hasMemory, hasFacts)));
        this.more.replaceChildren(this.rows.length > this.limit ? button(`Show all ${this.rows.length}`, () => {
            this.limit = Infinity;
            this.draw();
            this.findTops(Math.floor(Date.now() / 1000)).catch(() => {});
        }) : '');
    }

    row(one, top, hasMemory, hasFacts) {
        const { by } = this, text = one.name || '(none)', link = linkTo('history', { ...(by === 'service' ? { sv: one.name } : { all: 1, sr: addCondition('', `${quoteName(by)} = ${quoteValue(one.name)}`) }), ra: DAY_S });
        const canvas = h('canvas', { role: 'img', 'aria-label': `CPU use of ${text} over the day` }), count = (value) => h('td', { class: 'number' }, value);
        const found = this.tops.get(this.topKey(one));
        drawBars(canvas, BARS, one.bars, top);
        this.canvases.set(one.name, { canvas, bars: one.bars, top });
        return h('tr', { class: 'service' }, h('td', {}, h('a', { class: 'name', href: address('/') + link, title: text }, text)), count(`${Math.round(100 * one.now)} %`), h('td', {}, canvas),
            h('td', {}, h('span', { class: 'one-line fn', title: found?.full }, found?.text ?? '')), hasMemory && count(one.memory ? formatValue(one.memory, 'bytes') : ''),
            hasFacts && count(one.facts?.hosts ?? ''), hasFacts && count(one.facts?.processes ?? ''));
    }

    // Again in the colours of the theme.
    redraw() {
        for (const { canvas, bars, top } of this.canvases.values()) drawBars(canvas, BARS, bars, top);
    }

    topKey(one) {
        return `${this.by}\0${one.name}`;
    }

    // What takes the most in the last hour, asked for one row after the other. Two builds of a program have a row each of a function.
    async findTops(now) {
        for (const one of this.rows.slice(0, this.limit)) {
            const { by } = this, key = this.topKey(one), where = by === 'service' ? { service: one.name } : { selector: `${quoteName(by)} = ${quoteValue(one.name)}` };
            const answer = await this.ask('top', { ...where, from: now - (one.now ? 3600 : DAY_S), until: now, limit: TOP_ROWS }), sums = new Map();
            for (const { name, self } of answer.functions ?? []) sums.set(name, (sums.get(name) ?? 0) + number(self));
            const [found] = [...sums].sort((a, b) => b[1] - a[1]);
            if (this.signal.aborted || by !== this.by) return;
            this.tops.set(key, found && { full: found[0], text: `${readableName(found[0])}  ${Math.round(100 * found[1] / answer.total)} %` });
        }
        this.draw();
    }
}
