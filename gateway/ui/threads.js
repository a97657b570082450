// SPDX-License-Identifier: Apache-2.0
// Where every thread is now. Threads with equal stacks are one group. The frames of a group are made when it is opened, so ten thousand
// threads are as fast as ten.
import { getJson } from './api.js';
import { andMore, button, choice, formatTime, formatValue, h, message, number } from './dom.js';
import { attempt } from './load.js';
import { viewNames } from './names.js';
import { KIND, Profile } from './profile.js';
import { getState, setState } from './state.js';
import { createViewer } from './viewer.js';

const GROUPS_SHOWN = 100, VALUES_SHOWN = 6, TIDS_SHOWN = 40;
const THREAD_STATES = { R: 'running', S: 'sleeping', D: 'in I/O', T: 'stopped', t: 'traced', Z: 'dead', I: 'idle' };

const frameName = (frame) => frame.name || `[${frame.module || 'unknown'}]+0x${number(frame.address).toString(16)}`;

// "worker ×4, main": values with their numbers, the most frequent first.
function countedValues(values) {
    const counts = new Map();
    for (const value of values) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
    return andMore([...counts].sort((a, b) => b[1] - a[1]).map(([text, count]) => (count > 1 ? `${text} ×${count}` : text)), VALUES_SHOWN);
}

function groupThreads({ threads = [], stacks = [] }) {
    const groups = new Map();
    for (const thread of threads) {
        const key = thread.stack || thread.error;
        if (!groups.has(key)) groups.set(key, { frames: stacks[thread.stack - 1]?.frames ?? [], error: thread.error, threads: [] });
        groups.get(key).threads.push(thread);
    }
    const names = [...new Set(stacks.flatMap((stack) => (stack.frames ?? []).map(frameName)))], shown = viewNames(names);
    const shownOf = new Map(names.map((name, i) => [name, shown[i]]));
    return [...groups.values()].map((group) => {
        const values = (get) => countedValues(group.threads.map(get)), waits = values((thread) => thread.waitChannel);
        const cpu = group.threads.reduce((sum, thread) => sum + number(thread.cpuNs), 0), id = group.frames.map(frameName).join('\n') || group.error;
        const facts = `${values((thread) => thread.name)} · ${values((thread) => THREAD_STATES[thread.state] ?? thread.state)}${waits && ` · in ${waits}`}`
            + ` · ${formatValue(cpu, 'nanoseconds')} of CPU time`;
        const locks = values((thread) => thread.lockWait?.text);
        const frameNames = group.frames.map((frame) => shownOf.get(frameName(frame)));
        return { ...group, frameNames, cpu, id, facts, locks, text: `${id} ${frameNames.join(' ')} ${waits} ${locks} ${group.threads.map((thread) => `${thread.name} ${thread.tid}`).join(' ')}`.toLowerCase() };
    }).sort((a, b) => b.threads.length - a.threads.length || b.cpu - a.cpu);
}

// The same as a profile that counts threads.
function threadsProfile({ threads = [], stacks = [], unixNs: time, note }) {
    const profile = new Profile([{ type: 'threads', unit: 'count' }]), names = new Map([['', 0]]);
    for (const thread of threads) {
        for (const frame of [...(stacks[thread.stack - 1]?.frames ?? [{ name: '[no stack]', kind: 'NOTE', line: 0 }])].reverse()) {
            profile.frame.push(profile.addFunction(frameName(frame), frame.module ?? '', frame.file ?? '', KIND[frame.kind] ?? KIND.UNKNOWN));
            profile.line.push(frame.line);
        }
        if (!names.has(thread.name)) names.set(thread.name, profile.threads.push(thread.name) - 1);
        profile.endStack([1], names.get(thread.name), thread.tid);
    }
    return Object.assign(profile, { timeNanos: number(time), comments: note ? [note] : [] });
}

function groupElement(group, opened) {
    const body = h('div'), fill = () => body.append(h('ol', {}, group.frames.map((frame, i) => h('li', { title: frameName(frame) }, group.frameNames[i], h('span', { class: 'muted' },
        ` ${frame.module}${frame.file ? ` · ${frame.file}${frame.line ? `:${frame.line}` : ''}` : ''}`)))),
    h('p', { class: 'muted' }, `threads ${andMore(group.threads.map((thread) => thread.tid), TIDS_SHOWN)}${group.error ? ` · ${group.error}` : ''}`));
    const element = h('details', { class: 'group', open: opened.has(group.id), ontoggle: () => {
        opened[element.open ? 'add' : 'delete'](group.id);
        if (element.open && !body.firstChild) fill();
    } }, h('summary', {}, h('b', {}, group.threads.length), ` ${group.frameNames.slice(0, 3).join(' ← ') || 'no stack'} `, h('div', { class: 'muted' }, group.facts), group.locks && h('div', {}, group.locks)), body);
    return element;
}

export const threadsView = {
    name: 'threads',
    title: 'Threads',
    needsTarget: true,
    async open({ root, signal, prefix, target }) {
        const errors = h('div'), deadlocks = h('div'), list = h('div'), graph = h('div'), summary = h('p', { class: 'muted', role: 'status' }), opened = new Set();
        const viewer = createViewer(graph, { empty: 'no threads', name: `${target}-threads` });
        let answer = null, groups = [], limit = GROUPS_SHOWN;
        const draw = () => {
            const isGraph = getState('as') === 'graph', words = filter.value.toLowerCase().split(' ').filter(Boolean);
            const found = groups.filter((group) => words.every((word) => group.text.includes(word))), count = found.reduce((sum, group) => sum + group.threads.length, 0);
            graph.hidden = !isGraph;
            list.hidden = filter.hidden = isGraph;
            summary.textContent = `${formatValue(count, 'threads')} in ${formatValue(found.length, 'groups')} at ${formatTime(number(answer.unixNs) / 1e9, true)}`
                + `${answer.notWalked ? `, ${answer.notWalked} without a stack` : ''}; longest stop of a thread: ${formatValue(number(answer.longestStopNs), 'nanoseconds')}`;
            deadlocks.replaceChildren(...(answer.deadlocks ?? []).map((text) => message('error', text)));
            if (isGraph) return viewer.show(threadsProfile(answer), { title: `Threads of ${target}` });
            list.replaceChildren(answer.note ? message('hint', answer.note) : '', ...found.slice(0, limit).map((group) => groupElement(group, opened)),
                found.length > limit ? button('Show more', () => draw(limit *= 10)) : '', found.length ? '' : message('hint', 'no thread matches the filter'));
        };
        const refresh = () => attempt(errors, signal, async () => {
            answer = await getJson(`${prefix}/v1/threads`, { signal });
            groups = groupThreads(answer);
            draw();
        });
        const filter = h('input', { type: 'search', placeholder: 'function, thread, tid or wait', 'aria-label': 'filter threads', value: getState('filter'), oninput: () => {
            setState({ filter: filter.value });
            if (answer) draw();
        } });
        root.append(h('div', { class: 'bar' }, choice('show as', [['list', 'Stacks'], ['graph', 'Flame graph']], getState('as', 'list'), (as) => {
            setState({ as }, true);
            if (answer) draw();
        }), filter, button('Refresh', refresh)), errors, summary, deadlocks, list, graph);
        await refresh();
        return () => viewer.destroy();
    },
};
