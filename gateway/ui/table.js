// SPDX-License-Identifier: Apache-2.0
// The table of functions, and the callers and callees of one function.
import { button, formatChange, formatValue, h, percent } from './dom.js';
import { Flame } from './flame.js';
import { buildTree, functionTable, stackPaths } from './tree.js';
import { changeText, judge } from './profile.js';

const STEP = 100;

// Columns: [key, title, hint, value(row), text(row)]. Percentages are of the whole.
function tableColumns(tree, unit, isDiff) {
    const whole = tree.total[0], before = tree.baseTotal[0];
    const part = (value, of) => `${formatValue(value, unit)}  ${percent(value, of)}`;
    const change = (now, base) => now / (whole || 1) - base / (before || 1);
    if (!isDiff) {
        return [['self', 'Self', 'spent in the function itself', (r) => r.self, (r) => part(r.self, whole)],
            ['total', 'Total', 'with all functions that it calls', (r) => r.total, (r) => part(r.total, whole)]];
    }
    const judged = ({ verdict }) => `${verdict.verdict > 0 ? '▲' : verdict.verdict < 0 ? '▼' : '~'} ${changeText(verdict)}`;
    const points = (value) => `${value > 0 ? '▲ +' : value < 0 ? '▼ −' : ''}${percent(Math.abs(value), 1)}`;
    return [['size', 'Change', 'size of the change of the total share', (r) => Math.abs(change(r.total, r.baseTotal)), (r) => (r.verdict ? judged(r) : points(change(r.total, r.baseTotal)))],
        ['absolute', 'Absolute', 'change of the total value', (r) => r.total - r.baseTotal, (r) => formatChange(r.total - r.baseTotal, unit)],
        ['before', 'Base', 'total in the base', (r) => r.baseTotal, (r) => part(r.baseTotal, before)],
        ['now', 'New', 'total in the new profile', (r) => r.total, (r) => (r.total ? part(r.total, whole) : r.baseTotal ? 'gone' : '0'),]];
}

export class FunctionTable {
    // onpick(function number) is called for a row.
    constructor(element, onpick, onsort) {
        Object.assign(this, { element, onpick, onsort, sort: '', limit: STEP });
    }

    show(tree, unit, isDiff, regex, sort) {
        if (this.tree !== tree) this.rows = functionTable(tree);
        if (this.tree !== tree && isDiff) judge(tree, this.rows)?.forEach((verdict, n) => { this.rows[n].verdict = verdict; });
        Object.assign(this, { tree, columns: tableColumns(tree, unit, isDiff), regex, sort });
        this.render();
    }

    render() {
        const column = this.columns.find(([key]) => key === this.sort) ?? this.columns[0], fns = this.tree.profile.functions;
        const rows = this.rows.filter((row) => !this.regex || this.regex.test(fns[row.fn].name) || this.regex.test(fns[row.fn].shown)).sort((a, b) => column[3](b) - column[3](a));
        const head = this.columns.map(([key, title, hint]) => h('th', { scope: 'col', class: 'number', 'aria-sort': key === column[0] ? 'descending' : 'none' },
            button(key === column[0] ? `${title} ↓` : title, () => {
                this.sort = key;
                this.onsort(key);
                this.render();
            }, { title: hint })));
        const body = rows.slice(0, this.limit).map((row) => {
            const fn = fns[row.fn];
            return h('tr', { class: row.verdict && !row.verdict.verdict ? 'muted' : null }, this.columns.map(([, , , , text]) => h('td', { class: 'number' }, text(row))),
                h('td', {}, button(fn.shown, () => this.onpick(row.fn), { class: 'name', title: fn.name })), h('td', { class: 'muted' }, fn.module));
        });
        const more = rows.length > this.limit && button(`show ${Math.min(STEP * 10, rows.length - this.limit)} more of ${rows.length.toLocaleString('en')}`, () => {
            this.limit += STEP * 10;
            this.render();
        });
        this.element.replaceChildren(h('table', { class: 'list functions' },
            h('thead', {}, h('tr', {}, head, h('th', { scope: 'col', title: 'click: callers and callees' }, 'Function'), h('th', { scope: 'col' }, 'Module'))), h('tbody', {}, body)), more || '');
        if (!rows.length) this.element.append(h('p', { class: 'muted' }, 'no matches'));
    }
}

// Two graphs: who calls the function, nearest first, and what it calls.
export class Sandwich {
    constructor(element, onpick) {
        Object.assign(this, { element, onpick, flames: [] });
    }

    show(profile, type, fn, options, unit, settings) {
        this.destroy();
        profile.showNames();
        const name = profile.functions[fn]?.shown ?? '';
        const part = (title, key, upwards) => {
            const tree = buildTree(profile, type, stackPaths(profile, { ...options, inverted: false, threads: false, [key]: fn }));
            tree.changes = settings.isDiff && settings.byShare ? judge(tree) : null;
            const canvas = h('canvas', { role: 'img', 'aria-label': `${title} of ${name}` }), line = h('div', { class: 'detail' }, '');
            const box = h('section', { class: 'panel' }, h('h3', { class: 'one-line', title: name }, `${title} of ${name}`, h('span', { class: 'muted' }, `  ${formatValue(tree.total[0], unit)}`)),
                h('div', { class: 'flame' }, canvas), line);
            this.element.append(box);
            const pick = (n) => n > 0 && this.onpick(tree.fn[n]);
            const tell = (n) => { line.textContent = n > 0 ? `${formatValue(tree.total[n], unit)}  ${percent(tree.total[n], tree.total[0])}  ${profile.functions[tree.fn[n]].shown}` : ''; };
            const flame = Object.assign(new Flame(canvas, { onhover: tell, onselect: tell, onzoom() {}, onmenu: pick }), settings, { upwards, firstDepth: 1, least: 24 });
            flame.show(tree, 0);
            this.flames.push(flame);
        };
        part('Callers', 'above', true);
        part('Callees', 'below', false);
    }

    destroy() {
        for (const flame of this.flames) flame.destroy();
        this.flames = [];
        this.element.replaceChildren();
    }
}
