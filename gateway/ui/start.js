// SPDX-License-Identifier: Apache-2.0
// The first page: what was recorded, what can be profiled, sorted by the CPU use of the last seconds, and what Sonde can do here. What
// is off is shown off, with the line that turns it on.
import { getJson } from './api.js';
import { andMore, button, drawBars, formatSeconds, formatTime, formatValue, h, message, number, percent, sentence } from './dom.js';
import { repeat } from './load.js';
import { Overview } from './overview.js';
import { address, getState, linkTo, setState } from './state.js';

const TARGETS_MS = 2000, PANELS_TURNS = 15, SPARK_S = 300, SPARK = [96, 20], RECENT_POINTS = 5, ROWS_SHOWN = 30, HEAPS_SHOWN = 8, NAMES_SHOWN = 4;

// The prefix of a target's paths, as in gateway/reply/target_path.c: its name, or its pid if the name is not unique.
function targetPath(target, targets) {
    const hasNamesake = targets.some((other) => other !== target && !other.unattached && other.name === target.name);
    const byPid = target.unattached || hasNamesake || !target.name || /^\d+$/.test(target.name);
    return `/t/${byPid ? target.pid : encodeURIComponent(target.name)}/`;
}

// A name and its processes: one, or several that fold into a row. The CPU use of a name is that of all of its processes.
class ProcessGroup {
    constructor(name) {
        Object.assign(this, { name, points: [], now: null, isRecorded: false, hasPast: false });
    }

    // The values that history has are those before this page was opened.
    addPast(past) {
        if (this.hasPast || !past) return;
        const first = this.points[0]?.from ?? Infinity;
        this.points.unshift(...past.filter((one) => one.time <= first));
        Object.assign(this, { hasPast: true, isRecorded: true, now: this.now ?? past.at(-1)?.value ?? null });
    }

    add(targets, before, time) {
        const seen = targets.filter((one) => before.get(one.uuid)?.cpu && one.cpu), since = before.get(seen[0]?.uuid)?.time;
        this.targets = targets;
        this.points = this.points.filter((one) => one.time > time - SPARK_S);
        if (!seen.length) return;
        this.now = seen.reduce((sum, one) => sum + one.now, 0);
        this.points.push({ from: since, time, value: this.now });
    }

    // What rows are sorted by: the CPU use of the last seconds, so that they do not jump.
    get recent() {
        const last = this.points.slice(-RECENT_POINTS);
        return last.reduce((sum, one) => sum + one.value, 0) / (last.length || 1);
    }
}

class TargetTable {
    constructor() {
        Object.assign(this, { known: new Map(), groups: new Map(), rows: new Map(), targets: [], past: new Map(), limit: ROWS_SHOWN, order: [], advice: h('div') });
        this.filter = h('input', { type: 'search', placeholder: 'name, pid, user or container', 'aria-label': 'filter processes', oninput: () => {
            setState({ filter: this.filter.value });
            this.draw();
        }, onkeydown: (event) => this.onKey(event) });
        this.filter.value = getState('filter');
        this.body = h('tbody');
        this.more = h('p');
        this.scale = h('th');
        this.element = h('section', {}, h('div', { class: 'bar' }, h('h2', {}, 'Processes now'), this.filter), h('table', { class: 'list' }, h('thead', {}, h('tr', {},
            h('th', {}, 'Process'), h('th', { class: 'number' }, 'CPU'), this.scale, h('th', { class: 'number' }, 'CPU time'))), this.body), this.more, this.advice);
    }

    onKey(event) {
        const links = [...this.body.querySelectorAll('a.name[href]')].filter((link) => link.dataset.all === undefined);
        if (event.key === 'Enter' && links.length === 1) links[0].click();
        if (event.key === 'Escape') this.filter.blur();
    }

    update(targets) {
        const time = Date.now() / 1000, before = this.known, groups = new Map(), lists = new Map();
        this.known = new Map();
        this.targets = targets;
        for (const target of targets) {
            const old = before.get(target.uuid) ?? {}, cpu = number(target.cpuNs) / 1e9;
            Object.assign(target, { cpu, time, now: old.cpu && cpu ? Math.max(0, (cpu - old.cpu) / (time - old.time)) : 0, advice: target.advice || old.advice });
            this.known.set(target.uuid, target);
            lists.set(target.name, [...(lists.get(target.name) ?? []), target]);
        }
        for (const [name, list] of lists) {
            const group = this.groups.get(name) ?? new ProcessGroup(name);
            group.add(list, before, time);
            group.addPast(this.past.get(name));
            groups.set(name, group);
        }
        this.groups = groups;
        for (const key of this.rows.keys()) if (key !== '@all' && !this.known.has(key) && !groups.has(key.slice(1))) this.rows.delete(key);
        this.draw();
    }

    // Sorted by CPU use, but not while the pointer or the focus is in the table: what is about to be clicked stays.
    sorted(groups) {
        const isInUse = this.body.matches(':hover, :focus-within'), rank = new Map(this.order.map((name, i) => [name, i])), total = (one) => one.targets.reduce((sum, { cpu }) => sum + cpu, 0);
        groups.sort((a, b) => b.recent - a.recent || total(b) - total(a));
        if (isInUse) groups.sort((a, b) => (rank.get(a.name) ?? Infinity) - (rank.get(b.name) ?? Infinity));
        this.order = groups.map((one) => one.name);
        return groups;
    }

    draw() {
        const words = this.filter.value.toLowerCase().split(' ').filter(Boolean), open = new Set(getState('open').split('\n'));
        const fits = ({ name, pid, user, container }) => words.every((word) => `${name} ${pid} ${user} ${container}`.toLowerCase().includes(word));
        const found = this.sorted([...this.groups.values()].map((group) => Object.assign(group, { fitting: group.targets.filter(fits) })).filter((group) => group.fitting.length));
        const shown = found.slice(0, this.limit), top = Math.max(0.1, ...shown.flatMap((group) => group.points.map((point) => point.value)));
        this.scale.textContent = `last ${SPARK_S / 60} min, up to ${Math.round(100 * top)} %`;
        const rows = [this.allRow(), ...shown.flatMap((group) => (group.fitting.length === 1 ? [this.processRow(group.fitting[0], group, top)]
            : [this.groupRow(group, open.has(group.name), top), ...(open.has(group.name) ? group.fitting.map((target) => this.processRow(target, null, top)) : [])]))];
        if (rows.length !== this.body.children.length || rows.some((row, i) => row !== this.body.children[i])) this.body.replaceChildren(...rows);
        this.more.replaceChildren(found.length > this.limit ? button(`Show all ${found.length} names`, () => this.draw(this.limit = Infinity)) : '',
            found.length || !this.targets.length ? '' : message('hint', 'no process matches the filter'));
        this.drawAdvice(shown.flatMap((group) => group.fitting));
    }

    // The same advice for several processes is one sentence.
    drawAdvice(targets) {
        const groups = new Map();
        for (const { name, advice } of targets) if (advice) groups.set(advice, (groups.get(advice) ?? new Set()).add(name));
        const text = JSON.stringify([...groups].map(([advice, names]) => [advice, ...names]));
        if (text === this.advised) return;
        this.advised = text;
        this.advice.replaceChildren(...[...groups].map(([advice, names]) => h('p', { class: 'small muted' }, h('b', {}, andMore([...names], NAMES_SHOWN)), ': ', sentence(advice))));
    }

    allRow() {
        return this.row('@all', '@all', `/t/@all/${linkTo('live')}`, ['every process of this machine together'], {});
    }

    processRow(target, group, top) {
        const { pid, user, uid, container, unavailable, unattached, name } = target, path = `${targetPath(target, this.targets)}${linkTo('live')}`;
        const facts = [!unattached && tag('attached'), group?.isRecorded && tag('recorded'), [`pid ${pid}`, user || `uid ${uid}`, container && `container ${container.slice(0, 12)}`].filter(Boolean).join(' · '),
            unavailable && h('div', { class: 'small' }, sentence(`cannot be sampled: ${unavailable}`))];
        const { element } = this.row(target.uuid, name, unavailable ? null : path, facts, { now: group ? group.now : target.now, points: group?.points, cpu: target.cpu, time: target.time, top });
        element.classList.toggle('inner', !group);
        return element;
    }

    groupRow(group, isOpen, top) {
        const count = group.fitting.length, key = `*${group.name}`, { element, link } = this.row(key, group.name, null, [group.targets.some((one) => !one.unattached) && tag('attached'), group.isRecorded && tag('recorded'),
            `${count} processes`], { now: group.now, points: group.points, cpu: group.fitting.reduce((sum, one) => sum + one.cpu, 0), time: group.fitting[0].time, top });
        Object.assign(link, { onclick: () => {
            const open = new Set(getState('open').split('\n').filter(Boolean));
            if (!open.delete(group.name)) open.add(group.name);
            setState({ open: [...open].join('\n') });
            this.draw();
        } });
        link.setAttribute('aria-expanded', String(isOpen));
        return element;
    }

    // A row and its link stay, so that a click never misses and the focus stays while numbers change. Groups have a button instead of a link.
    row(key, name, path, facts, { now, points, cpu, time, top }) {
        const isGroup = key[0] === '*', known = this.rows.get(key), link = known?.link ?? (isGroup ? h('button', { type: 'button', class: 'name' }) : h('a', { class: 'name', 'data-all': key === '@all' }));
        const canvas = known?.canvas ?? h('canvas', { role: 'img', 'aria-label': 'CPU use of the last minutes' });
        const element = known?.element ?? h('tr', { class: 'target', onclick: (event) => !event.target.closest('a, button') && (isGroup || link.href) && link.click() },
            h('td', {}, link, h('span', { class: 'muted facts' })), h('td', { class: 'number' }), h('td', { class: 'spark' }, canvas), h('td', { class: 'number' }));
        const row = { element, link, canvas };
        this.rows.set(key, row);
        if (!isGroup && path) link.href = address(path);
        else link.removeAttribute('href');
        if (link.textContent !== name) Object.assign(link, { textContent: name, title: name });
        link.nextSibling.replaceChildren(...facts.filter(Boolean));
        element.children[1].textContent = now === null || now === undefined ? '' : `${Math.round(100 * now)} %`;
        element.lastChild.textContent = cpu ? formatSeconds(cpu) : '';
        canvas.hidden = !points;
        if (points) drawBars(canvas, SPARK, points.map((one) => ({ from: 1 - (time - one.from) / SPARK_S, to: 1 - (time - one.time) / SPARK_S, value: one.value })), top);
        return key === '@all' ? element : row;
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

const heapState = (path) => getJson(`${path}v1/heap`).catch((problem) => ({ note: problem.message })).then((heap) => ({ ...heap, path, name: decodeURIComponent(path.slice(3, -1)) }));

// Processes of which the same is true are one item. The reasons are in full on the page of the memory.
function heapFeatures(heaps) {
    const groups = new Map();
    for (const heap of heaps) {
        const text = heap.active ? `since ${formatTime(number(heap.activeSinceUnixNs) / 1e9)}` : (heap.note ?? '').split('; ')[0];
        groups.set(text, [...(groups.get(text) ?? []), heap]);
    }
    return [...groups].map(([text, list]) => {
        const [{ active, available }] = list, item = feature(active, `Heap of ${andMore(list.map((one) => one.name), NAMES_SHOWN)}`, text);
        if (available && !active) item.append(' ', ...list.slice(0, NAMES_SHOWN).map(({ path, name }) => [h('a', { href: address(`${path}${linkTo('heap')}`) }, list.length > 1 ? `turn on ${name}` : 'turn it on'), ' ']).flat());
        return item;
    });
}

// What the service may do on this machine, in one line if nothing is missing.
function rightFeatures(rights) {
    const items = rights.map((right) => feature(right.isGranted, right.name, [right.lost, right.reason].filter(Boolean).join(': '), right.command));
    if (!rights.length || rights.some((right) => !right.isGranted)) return items.filter((_, i) => !rights[i].isGranted);
    return [h('li', { class: 'on' }, h('details', {}, h('summary', {}, tag('on'), h('b', {}, 'Everything works here')), h('ul', {}, items)))];
}

function footText(info) {
    const up = Date.now() / 1000 - number(info.startUnixNs) / 1e9;
    return `Sonde ${info.version} on ${info.host}, up ${formatSeconds(up)}; the service uses ${percent(number(info.cpuNs) / 1e9, up)} of a CPU and ${formatValue(number(info.residentBytes), 'bytes')}`;
}

async function drawPanels(table, features, recent, foot) {
    const heaps = table.targets.filter((target) => !target.unattached).slice(0, HEAPS_SHOWN).map((target) => targetPath(target, table.targets));
    const off = (name, command) => (problem) => feature(false, name, problem.message, command);
    const [info, { captures = [] }, ...items] = await Promise.all([getJson('/v1/info'), getJson('/v1/captures'), historyFeature(table).catch(off('History', 'sonded --history')),
        Promise.all(heaps.map(heapState)).then(heapFeatures)]);
    features.replaceChildren(...rightFeatures(info.rights ?? []), ...items.flat());
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
        const overview = new Overview(signal), redraw = () => overview.redraw();
        document.addEventListener('sonde-theme', redraw, { signal });
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw, { signal });
        root.append(errors, h('div', { class: 'start' }, h('div', {}, overview.element, table.element), h('div', {}, panel('What works here', features), panel('Recent captures', recent))), foot);
        let turn = 0;
        overview.follow().catch(() => {}); // without history there is none; the panel says why
        repeat(errors, signal, TARGETS_MS, async () => {
            const all = turn && turn % PANELS_TURNS === 1 ? '?all=true&advice=true' : turn ? '?all=true' : '';
            table.update((await getJson(`/v1/targets${all}`, { signal })).targets ?? []);
            if (turn++ % PANELS_TURNS === 0) drawPanels(table, features, recent, foot).catch((error) => { foot.textContent = error.message; });
        });
    },
};
