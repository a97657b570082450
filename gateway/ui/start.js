// SPDX-License-Identifier: Apache-2.0
// The first page: what can be profiled, sorted by CPU time, with the CPU use of the last minutes, and what Sonde can do here. What is
// off is shown off, with the line that turns it on.
import { getJson } from './api.js';
import { button, fitCanvas, formatSeconds, formatTime, formatValue, h, message, number, percent, sentence, themeColours } from './dom.js';
import { repeat } from './load.js';
import { getState, linkTo, setState } from './state.js';

const TARGETS_MS = 2000, PANELS_TURNS = 15, SPARK_S = 300, ROWS_SHOWN = 40, HEAPS_SHOWN = 8;

// The prefix of a target's paths, as in gateway/reply/target_path.c: its name, or its pid if the name is not unique.
function targetPath(target, targets) {
    const hasNamesake = targets.some((other) => other !== target && !other.unattached && other.name === target.name);
    const byPid = target.unattached || hasNamesake || !target.name || /^\d+$/.test(target.name);
    return `/t/${byPid ? target.pid : encodeURIComponent(target.name)}/`;
}

function drawSparkline(canvas, points, now) {
    const width = 96, height = 20, context = fitCanvas(canvas, width, height), { accent, line } = themeColours();
    const x = (time) => width - (now - time) / SPARK_S * width, top = Math.max(0.1, ...points.map((point) => point.value));
    context.clearRect(0, 0, width, height);
    context.fillStyle = line;
    context.fillRect(0, height - 1, width, 1);
    context.fillStyle = accent;
    for (const { from, time, value } of points) context.fillRect(x(from), height, Math.max(1, x(time) - x(from)), -Math.ceil(value / top * height));
}

// What is known about processes over time: the CPU use of each, from its CPU clock or from history.
class TargetTable {
    constructor() {
        Object.assign(this, { known: new Map(), rows: new Map(), targets: [], past: new Map(), limit: ROWS_SHOWN });
        this.filter = h('input', { type: 'search', placeholder: 'name, pid, user or container', 'aria-label': 'filter processes', oninput: () => {
            setState({ filter: this.filter.value });
            this.draw();
        } });
        this.filter.value = getState('filter');
        this.body = h('tbody');
        this.more = h('p');
        this.element = h('div', {}, h('div', { class: 'bar' }, this.filter), h('table', { class: 'list' }, h('thead', {}, h('tr', {},
            ['Process', 'CPU', 'CPU time'].map((text) => h('th', {}, text)))), this.body), this.more);
    }

    update(targets) {
        const time = Date.now() / 1000, before = this.known;
        this.known = new Map();
        this.targets = targets;
        for (const uuid of this.rows.keys()) if (uuid !== '@all' && !before.has(uuid)) this.rows.delete(uuid);
        for (const target of targets) {
            const old = before.get(target.uuid) ?? { points: [], now: 0 }, past = target.unattached || old.hasPast ? null : this.past.get(target.name);
            const points = [...(past ?? []).filter((one) => one.time < time - 10 || !old.points.length), ...old.points].filter((one) => one.time > time - SPARK_S);
            Object.assign(target, { cpu: number(target.cpuNs) / 1e9, time, now: old.now, points, hasPast: old.hasPast || !!past, advice: target.advice || old.advice });
            if (old.cpu && target.cpu) {
                target.now = Math.max(0, (target.cpu - old.cpu) / (time - old.time));
                target.points.push({ from: old.time, time, value: target.now });
            }
            this.known.set(target.uuid, target);
        }
        this.draw();
    }

    draw() {
        const words = this.filter.value.toLowerCase().split(' ').filter(Boolean);
        const found = this.targets.filter(({ name, pid, user, container }) => {
            const text = `${name} ${pid} ${user} ${container}`.toLowerCase();
            return words.every((word) => text.includes(word));
        }).sort((a, b) => (a.unattached ?? false) - (b.unattached ?? false) || b.cpu - a.cpu);
        const rows = [this.row({ name: '@all', uuid: '@all' }, '/t/@all/', ['every process of this machine together']), ...found.slice(0, this.limit).map((target) =>
            this.row(target, targetPath(target, this.targets), [!target.unattached && tag('attached'), !target.unattached && this.past.has(target.name) && tag('recorded'),
                [`pid ${target.pid}`, target.user || `uid ${target.uid}`, target.container && `container ${target.container.slice(0, 12)}`].filter(Boolean).join(' · ')]))];
        if (rows.length !== this.body.children.length || rows.some((row, i) => row !== this.body.children[i])) this.body.replaceChildren(...rows);
        this.more.replaceChildren(found.length > this.limit ? button(`Show all ${found.length} processes`, () => this.draw(this.limit = Infinity)) : '',
            found.length || !this.targets.length ? '' : message('hint', 'no process matches the filter'));
    }

    // A process keeps its row and its link, so that a click never misses and the focus stays while numbers change.
    row(target, path, facts) {
        const { name, uuid, unavailable, advice, points, now, cpu, time } = target, known = this.rows.get(uuid);
        const link = known?.link ?? h('a', { class: 'name' }), canvas = known?.canvas ?? h('canvas', { role: 'img', 'aria-label': 'CPU use of the last minutes', hidden: !points });
        const element = known?.element ?? h('tr', { class: 'target', onclick: (event) => event.target !== link && link.href && link.click() },
            h('td', {}, link, h('span', { class: 'muted facts' })), h('td', { class: 'spark' }, canvas, h('span')), h('td', { class: 'number' }));
        this.rows.set(uuid, { element, link, canvas });
        if (unavailable) link.removeAttribute('href');
        else link.href = `${path}${linkTo('live')}`;
        link.textContent = name;
        link.nextSibling.replaceChildren(...facts.filter(Boolean), ...[unavailable && `cannot be sampled: ${unavailable}`, advice].filter(Boolean).map((text) =>
            h('div', { class: 'small' }, sentence(text))));
        canvas.nextSibling.textContent = points?.length ? `${Math.round(100 * now)} %` : '';
        element.lastChild.textContent = cpu ? formatSeconds(cpu) : '';
        if (points) drawSparkline(canvas, points, time);
        return element;
    }
}

// ---- What works here ----

const tag = (text) => h('span', { class: 'tag' }, text);

const feature = (isOn, name, text, command) => h('li', { class: isOn ? 'on' : 'off' }, tag(isOn ? 'on' : 'off'), h('b', {}, name), ' ',
    sentence(text), command ? h('pre', {}, command) : null);

async function historyFeature(table) {
    const info = await getJson('/v1/history/info');
    if (!table.past.size) {
        const { series = [], stepS: step } = await getJson('/v1/history/series?from=-5m&step=10&group_by=service');
        for (const one of series) table.past.set(one.labels[0]?.value, one.timeUnixS.map((time, i) => ({ from: +time, time: +time + step, value: one.value[i] / 1e9 / step })));
    }
    return feature(!info.trouble, 'History', info.trouble || `recorded processes: ${info.recordingTargets}; `
        + `${formatValue(number(info.sizeBytes), 'bytes')} since ${formatTime(number(info.firstUnixNs) / 1e9)}`);
}

async function heapFeature(path) {
    const heap = await getJson(`${path}v1/heap`), text = heap.active ? `since ${formatTime(number(heap.activeSinceUnixNs) / 1e9)} ` : heap.note;
    const item = feature(heap.active, `Heap of ${decodeURIComponent(path.slice(3, -1))}`, text);
    if (heap.available && !heap.active) item.append(' ', h('a', { href: `${path}${linkTo('heap')}` }, 'turn it on'));
    return item;
}

function footText(info) {
    const up = Date.now() / 1000 - number(info.startUnixNs) / 1e9;
    return `Sonde ${info.version} on ${info.host}, up ${formatSeconds(up)}; the service uses ${percent(number(info.cpuNs) / 1e9, up)} of a CPU and ${formatValue(number(info.residentBytes), 'bytes')}`;
}

async function drawPanels(table, features, recent, foot) {
    const heaps = table.targets.filter((target) => !target.unattached).slice(0, HEAPS_SHOWN).map((target) => targetPath(target, table.targets));
    const off = (name, command) => (problem) => feature(false, name, problem.message, command);
    const [info, { captures = [] }, ...items] = await Promise.all([getJson('/v1/info'), getJson('/v1/captures'), historyFeature(table).catch(off('History', 'sonded --history')),
        ...heaps.map((path) => heapFeature(path).catch(off('Heap')))]);
    features.replaceChildren(...items, ...(info.rights ?? []).map((right) => feature(right.isGranted, right.name, [right.lost, right.reason].filter(Boolean).join(': '), right.command)));
    recent.replaceChildren(...captures.slice(0, 5).map((one) => h('li', {}, h('a', { href: linkTo('captures', { id: one.id }) }, `${one.id}: ${one.kind} of ${one.target}`),
        h('span', { class: 'muted' }, ` ${formatTime(number(one.startUnixNs) / 1e9)} ${one.note}`))), captures.length ? '' : 'none yet');
    foot.textContent = footText(info);
}

export const startView = {
    name: 'start',
    title: 'Targets',
    async open({ root, signal }) {
        const errors = h('div'), table = new TargetTable(), features = h('ul', { class: 'features' }), recent = h('ul'), foot = h('p', { class: 'muted' });
        const panel = (title, list) => h('section', { class: 'panel' }, h('h2', {}, title), list);
        root.append(errors, h('div', { class: 'start' }, table.element, h('div', {}, panel('What works here', features), panel('Recent captures', recent))), foot);
        let turn = 0;
        repeat(errors, signal, TARGETS_MS, async () => {
            const all = turn && turn % PANELS_TURNS === 1 ? '?all=true&advice=true' : turn ? '?all=true' : '';
            table.update((await getJson(`/v1/targets${all}`, { signal })).targets ?? []);
            if (turn++ % PANELS_TURNS === 0) drawPanels(table, features, recent, foot).catch((error) => { foot.textContent = error.message; });
        });
    },
};
