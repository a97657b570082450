// SPDX-License-Identifier: Apache-2.0
// A profile on the page: tools, the flame graph or table or callers and callees, and the line that describes a frame. Its settings are
// in the URL: q search, z zoomed node, i inverted, th threads, co colour, tb what is shown, so sort, f focus, hd hidden, mo module, ni without
// idle threads, ty sample type, ab absolute change, sel the function whose callers and callees are shown.
import { isOffline } from './api.js';
import { showCode } from './code.js';
import { button, choice, formatChange, formatSeconds, formatTime, formatValue, h, message, percent } from './dom.js';
import { EVENTS } from './events.js';
import { exportMenu } from './export.js';
import { changeOf, Flame, moduleColour } from './flame.js';
import { closeMenu, copyText, menuButton, showDialog, showMenu } from './menu.js';
import { changeText, join, judge, KIND, leastChange, rateRefusal } from './profile.js';
import { getState, isOn, setState } from './state.js';
import { FunctionTable, Sandwich } from './table.js';
import { buildTree, hottestFunction, idleStacks, literal, moduleName, moduleShares, nodeName, searchRegex, searchTree, shownName, stackPaths } from './tree.js';

const FEW = 0.05; // share of the total: if larger changes can be overlooked, say so
const MODULES_SHOWN = 9;
let keyReceiver = null;

// [key, what it does, run(viewer)]
const KEYS = [
    ['/', 'search', (v) => v.box.focus()],
    ['n', 'next match', (v) => v.nextMatch(1)],
    ['N', 'previous match', (v) => v.nextMatch(-1)],
    ['Arrows', 'move to caller, callee and neighbours', null],
    ['Enter', 'zoom to the selected frame', (v) => v.flame.zoom(v.flame.selected)],
    ['0', 'show everything again', (v) => v.reset()],
    ['Escape', 'zoom out', (v) => v.escape()],
    ['+', 'zoom in', (v) => v.flame.scale(0.7, v.flame.width / 2)],
    ['-', 'zoom out a little', (v) => v.flame.scale(1.4, v.flame.width / 2)],
    ['i', 'invert: leaves first, their callers below', (v) => v.toggle('i')],
    ['t', 'graph, table', (v) => v.setPart(v.part === 'table' ? 'graph' : 'table')],
    ['b', 'table beside the graph', (v) => v.setPart(v.part === 'both' ? 'graph' : 'both')],
    ['c', 'callers and callees of the selected frame', (v) => v.openSandwich(v.tree.fn[v.flame.selected])],
    ['s', 'split threads', (v) => v.toggle('th')],
    ['m', 'colour by module or by share', (v) => v.toggle('co')],
    ['f', 'focus on stacks through the selected frame', (v) => v.focus(v.flame.selected)],
    ['h', 'hide the selected function', (v) => v.hide(v.flame.selected)],
    ['.', 'menu of the selected frame', (v) => v.openMenu(v.flame.selected)],
    ['?', 'this list', () => showKeys()],
];
const MEASURES = Object.assign({}, ...EVENTS.map((event) => event.words));
const exactly = (name) => `^${literal(name)}$`, isMemory = (type) => /space|objects/.test(type.type);
const measureName = (type) => MEASURES[type.type] ?? type.type;
const ARROWS = { ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down' };

export function showKeys() {
    showDialog('Keys', h('dl', { class: 'keys' }, KEYS.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])),
        h('p', { class: 'muted' }, 'Mouse: click zooms, double click shows everything, dragging moves, Ctrl and wheel zooms, the right button opens the menu.'));
}

document.addEventListener('keydown', (event) => {
    if (!keyReceiver?.tree || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, select, textarea, dialog, .menu, [data-keys]')) return;
    if (keyReceiver.onKey(event)) event.preventDefault();
});

class Viewer {
    constructor(container, { empty, name }) {
        Object.assign(this, { empty: empty ?? 'no samples: the target was idle; if not, run `sonde doctor`', name: name ?? 'profile', searchListeners: [] });
        this.profile = this.tree = this.base = null;
        this.box = h('input', { type: 'search', placeholder: 'search: regular expression', 'aria-label': 'search functions', oninput: () => this.search(this.box.value),
            onkeydown: (event) => event.key === 'Enter' && this.nextMatch(event.shiftKey ? -1 : 1) });
        this.box.value = getState('q');
        this.count = h('output', { class: 'count' });
        this.tools = h('div', { class: 'bar tools' });
        this.chips = h('div', { class: 'bar chips' });
        this.legend = h('p', { class: 'legend muted' });
        this.modules = h('div', { class: 'bar modules', role: 'group', 'aria-label': 'modules' });
        this.moduleButtons = new Map();
        this.detail = h('div', { class: 'detail', 'aria-live': 'polite' });
        this.canvas = h('canvas', { tabindex: 0, role: 'application', 'aria-roledescription': 'flame graph', 'aria-label': 'flame graph: move with the arrow keys, ? lists all keys' });
        this.body = h('div', { class: 'flame' }, this.canvas);
        this.listBox = h('div', { class: 'tablebox' });
        this.heading = h('h2', { class: 'title' });
        this.about = h('details', { class: 'about' }, h('summary', {}, 'About this profile'));
        this.notice = h('div');
        this.stage = h('div', { class: 'stage' }, this.listBox, this.body);
        this.element = h('section', { class: 'viewer', 'aria-label': 'profile' }, this.heading, this.tools, this.chips, h('div', { class: 'bar legend-row' }, this.legend, this.about),
            this.modules, this.notice, this.detail, this.stage);
        this.body.hidden = this.about.hidden = true;
        container.append(this.element);
        this.makeParts();
        keyReceiver = this;
    }

    makeParts() {
        this.flame = new Flame(this.canvas, {
            onhover: (n) => this.describe(n >= 0 ? n : this.flame.selected),
            onselect: (n) => this.describe(n),
            onzoom: (n) => setState({ z: n > 0 ? this.tree.id[n].toString(36) : null }, true),
            onmenu: (n, x, y) => this.openMenu(n, x, y),
            onframe: (ms) => { this.canvas.dataset.frameMs = ms.toFixed(2); },
        });
        this.table = new FunctionTable(this.listBox, (fn) => (this.part === 'both' ? this.find(fn) : this.openSandwich(fn)), (sort) => setState({ so: sort }));
        this.sandwich = new Sandwich(this.listBox, (fn) => this.openSandwich(fn));
        this.onScheme = () => this.flame.tree && this.flame.draw();
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', this.onScheme);
        document.addEventListener('sonde-theme', this.onScheme);
    }

    destroy() {
        this.flame.destroy();
        this.sandwich.destroy();
        closeMenu();
        document.removeEventListener('sonde-theme', this.onScheme);
        matchMedia('(prefers-color-scheme: dark)').removeEventListener('change', this.onScheme);
        this.element.remove();
        if (keyReceiver === this) keyReceiver = null;
    }

    get part() {
        return getState('tb', 'graph');
    }

    get type() {
        const at = this.profile.types.findIndex((type) => type.type === getState('ty'));
        return at >= 0 ? at : this.profile.defaultType;
    }

    get unit() {
        return this.profile.types[this.type].unit;
    }

    // Memory is compared by its bytes, time by its share.
    get byShare() {
        return getState('ab') ? !isOn('ab') : !isMemory(this.profile.types[this.type]);
    }

    settings() {
        return { colourBy: isOn('co') ? 'share' : 'module', isDiff: !!this.base, isMemory: isMemory(this.profile.types[this.type]), byShare: this.byShare };
    }

    options() {
        return { focus: searchRegex(getState('f'), true), hide: searchRegex(getState('hd'), true), inverted: isOn('i'), threads: isOn('th'), only: this.onlyStacks() };
    }

    get canBeIdle() {
        return !this.base && /off.cpu/.test(this.profile.types[this.type].type + this.profile.periodType?.type);
    }

    // Which stacks are shown, or null for all: those of one module, and not those of idle threads.
    onlyStacks() {
        const p = this.shown, module = getState('mo'), idle = this.canBeIdle && isOn('ni') ? idleStacks(p, this.shownType) : null;
        if (!module && !idle) return null;
        const isOfModule = module ? p.functions.map((fn) => moduleName(fn) === module) : null;
        return (s) => !(idle?.[s]) && (!isOfModule || (p.start[s + 1] > p.start[s] && isOfModule[p.frame[p.start[s + 1] - 1]]));
    }

    // ---- What is shown ----

    show(profile, { base = null, title = '', about = [] } = {}) {
        Object.assign(this, { profile, base, title });
        this.shown = profile;
        this.shownType = this.type;
        this.notice.replaceChildren();
        if (base) this.joinBase();
        this.noteNegatives();
        this.heading.textContent = title;
        this.writeAbout(about);
        this.build();
    }

    joinBase() {
        const { type: name, unit } = this.profile.types[this.type];
        const baseType = this.base.types.findIndex((type) => type.type === name && type.unit === unit);
        if (baseType < 0) {
            return this.refuse(`the profiles measure different things: the base has no ${name}. Choose two of the same kind.`);
        }
        const refusal = rateRefusal(this.base, this.profile, { type: name, unit });
        if (refusal) return this.refuse(`${refusal}. Choose the measured time instead of ${name}.`);
        this.shown = join(this.profile, this.base, this.type, baseType);
        this.shownType = 0;
    }

    refuse(why) {
        this.notice.replaceChildren(message('error', why));
        this.base = null;
    }

    noteNegatives() {
        const count = this.shown.side ? 0 : this.shown.values[this.shownType].filter((value) => value < 0).length;
        if (count) this.notice.append(message('hint', `${count.toLocaleString('en')} stacks have negative values, which count as 0 here: compare two profiles to see what shrank`));
    }

    writeAbout(about) {
        const p = this.profile, facts = [];
        if (p.timeNanos) facts.push(`taken at ${formatTime(p.timeNanos / 1e9, true)}`);
        if (p.durationNanos) facts.push(`over ${formatSeconds(p.durationNanos / 1e9)}`);
        const texts = [facts.join(' '), ...about, ...p.comments, `${p.stackCount.toLocaleString('en')} stacks, ${p.functions.length.toLocaleString('en')} functions`].filter(Boolean);
        this.about.replaceChildren(h('summary', {}, 'About this profile'), h('ul', {}, texts.map((text) => h('li', {}, text))));
    }

    // After a change of the profile or of what is drawn of it.
    build() {
        const zoomed = parseInt(getState('z'), 36) >>> 0, selected = this.tree ? this.tree.id[this.flame.selected] : 0;
        this.tree = buildTree(this.shown, this.shownType, stackPaths(this.shown, this.options()));
        this.tree.changes = this.base && this.byShare ? judge(this.tree) : null;
        this.straight = null;
        Object.assign(this.flame, this.settings(), { hit: null });
        this.flame.show(this.tree, zoomed || 0);
        this.flame.selected = Math.max(0, this.tree.id.indexOf(selected));
        this.drawTools();
        this.search(getState('q'), false);
        this.describe(this.flame.selected);
        if (this.part === 'callers') this.drawSandwich();
    }

    // Tools are made again only if one of them changes, and the focus stays: a stream draws several times a second.
    drawTools() {
        const isEmpty = this.tree.total[0] <= 0 && this.tree.baseTotal[0] <= 0, all = () => [...this.tools.querySelectorAll('button, select, input')];
        const key = [this.part, isOn('i'), isOn('th'), isOn('co'), this.canBeIdle, isOn('ni'), this.type, !!this.base, this.byShare, ...this.profile.types.map((type) => type.type)].join();
        if (key !== this.toolsKey) {
            const focused = all().indexOf(document.activeElement);
            this.makeTools();
            all()[focused]?.focus();
        }
        this.toolsKey = key;
        this.drawChips();
        this.drawLegend();
        this.drawModules(isEmpty);
        this.drawStage(isEmpty);
        if (isEmpty && !this.notice.firstChild) this.notice.replaceChildren(message('hint', this.empty));
    }

    drawStage(isEmpty) {
        this.body.hidden = isEmpty || !['graph', 'both'].includes(this.part);
        this.about.hidden = !this.profile;
        this.stage.classList.toggle('both', this.part === 'both');
        if (this.part === 'graph') this.listBox.replaceChildren();
    }

    makeTools() {
        const p = this.profile;
        const parts = choice('what is shown', [['graph', 'Graph'], ['table', 'Table'], ['both', 'Both', 'table beside the graph (b)'], ['callers', 'Callers & callees']], this.part, (part) => this.setPart(part));
        const idle = this.canBeIdle ? [['ni', 'Hide idle', 'without threads that wait at one place for more than 90 % of their time']] : [];
        const toggles = [['i', 'Invert', 'leaves first, their callers below (i)'], ['th', 'Threads', 'a level of threads (s)'], ...idle].map(([key, text, hint]) => button(text, () => this.toggle(key), {
            title: hint, 'aria-pressed': String(isOn(key)) }));
        const types = p.types.length > 1 && h('select', { 'aria-label': 'what is measured', onchange: (event) => this.change({ ty: event.target.value, z: null }) },
            p.types.map((type, t) => h('option', { value: type.type, selected: t === this.type }, measureName(type))));
        const colours = this.base ? choice('how changes are measured', [['share', 'By share'], ['absolute', 'Absolute']], this.byShare ? 'share' : 'absolute', (by) => this.change({ ab: by === 'absolute' ? '1' : '0' }))
            : choice('colour', [['module', 'Module'], ['share', 'Share']], isOn('co') ? 'share' : 'module', (by) => this.change({ co: by === 'share' }));
        this.exporter ??= menuButton('Export ▾', () => exportMenu(() => ({ profile: this.profile, base: this.base, type: this.type, title: this.title }), this.name), { title: 'save this view' });
        this.tools.replaceChildren(this.box, this.count, parts, ...toggles, types || '', colours, this.exporter);
    }

    drawChips() {
        const chip = (key, text) => getState(key) && h('span', { class: 'chip' }, text, ' ', h('code', {}, getState(key)), button('×', () => this.change({ [key]: null }), { 'aria-label': `remove: ${text}` }));
        this.chips.replaceChildren(...[chip('f', 'only stacks through'), chip('hd', 'hidden'), chip('mo', 'only what is spent in')].filter(Boolean));
    }

    // The modules with their shares; one that is pressed is shown alone. Buttons stay, so that the focus and a click survive a redraw.
    drawModules(isEmpty) {
        const rows = this.base || isEmpty ? [] : moduleShares(this.shown, this.shownType), total = rows.reduce((sum, { value }) => sum + value, 0), few = rows.slice(0, MODULES_SHOWN);
        const buttons = few.map(({ module, fn, value }) => {
            const known = this.moduleButtons.get(module) ?? this.moduleButton(module);
            known.firstChild.style.background = isOn('co') ? 'transparent' : moduleColour(fn, isMemory(this.profile.types[this.type]));
            known.lastChild.textContent = ` ${percent(value, total)}`;
            known.setAttribute('aria-pressed', String(getState('mo') === module));
            return known;
        });
        if (rows.length > few.length) buttons.push(this.moreModules ??= h('span', { class: 'muted' }));
        if (rows.length > few.length) this.moreModules.textContent = `${rows.length - few.length} more`;
        if (buttons.length !== this.modules.children.length || buttons.some((one, i) => one !== this.modules.children[i])) this.modules.replaceChildren(...buttons);
    }

    moduleButton(module) {
        const made = button(h('i', { class: 'swatch' }), () => this.change({ mo: getState('mo') === module ? null : module, z: null }), { title: `only what is spent in ${module} itself` });
        made.append(h('span', { class: 'module' }, module), h('span', { class: 'muted' }));
        this.moduleButtons.set(module, made);
        return made;
    }

    drawLegend() {
        const t = this.tree, unit = this.unit, what = measureName(this.profile.types[this.type]);
        if (!this.base) {
            this.legend.textContent = `${formatValue(t.total[0], unit)}${unit === 'count' ? ' ' : ' of '}${what}${isOn('co') ? ' · darker: more time in the function itself' : ' · colour: module'}`;
            return;
        }
        const swatch = (kind) => h('i', { class: `swatch ${kind}` });
        this.legend.replaceChildren(swatch('grown'), `▲ ${this.byShare ? 'takes a larger share' : 'takes more'} than in the base  `, swatch('shrunk'), `▼ ${this.byShare ? 'a smaller share' : 'less'}  `,
            ...(t.changes ? [swatch('noise'), 'within noise  '] : []),
            `· width: the new profile · base ${this.base.scaled ? `${this.base.scaled} ` : ''}${formatValue(t.baseTotal[0], unit)}${this.base.perTime ?? ''}, new ${formatValue(t.total[0], unit)} (${formatChange(t.total[0] - t.baseTotal[0], unit)})`, this.doubts());
    }

    doubts() {
        const t = this.tree, least = t.changes ? leastChange(t) : 0;
        if (!t.changes) return ' · noise is coloured, too';
        const [base, now] = [1, 0].map((side) => this.shown.counts.reduce((sum, count, s) => sum + (this.shown.side[s] === side ? count : 0), 0));
        return least < FEW ? '' : ` · ${base} and ${now} samples: in a large function, changes below ${Math.round(100 * least)} % of the total cannot be seen`;
    }

    verdictText(n) {
        const one = this.tree.changes?.[n];
        return one ? ` · change ${changeText(one)}${one.verdict ? '' : ', within noise'}` : '';
    }

    describe(n) {
        const t = this.tree, unit = this.unit, fn = n > 0 ? t.profile.functions[t.fn[n]] : null;
        const texts = [`${formatValue(t.total[n], unit)}, ${percent(t.total[n], t.total[0])}`];
        if (this.flame.zoomed > 0 && n !== this.flame.zoomed) texts.push(`, ${percent(t.total[n], t.total[this.flame.zoomed])} of the zoomed frame`);
        if (n > 0) texts.push(` · itself ${formatValue(t.self[n], unit)}, ${percent(t.self[n], t.total[0])}`);
        if (this.base) texts.push(` · base ${formatValue(t.baseTotal[n], unit)}, ${percent(t.baseTotal[n], t.baseTotal[0])}${t.changes || changeOf(t, n, this.byShare).sign ? '' : ' (no change)'}${this.verdictText(n)}`);
        texts.push(h('b', { title: nodeName(t, n) }, ` ${shownName(t, n)}`)); // after the numbers, because it may be long
        if (fn) texts.push(h('span', { class: 'muted' }, ` · ${fn.kind === KIND.KERNEL ? 'kernel' : fn.module || 'no module'}${fn.file ? ` · ${fn.file}${t.line[n] ? `:${t.line[n]}` : ''}` : ''}`));
        this.detail.replaceChildren(...texts);
    }

    // ---- Changes by the user ----

    change(changes) {
        setState(changes, true);
        if ('ty' in changes) this.show(this.profile, { base: this.base, title: this.title });
        else this.build();
    }

    toggle(key) {
        this.change({ [key]: !isOn(key), z: null });
    }

    setPart(part) {
        setState({ tb: part === 'graph' ? null : part }, true);
        this.sandwich.destroy();
        this.drawTools();
        this.drawTable();
        if (part === 'callers') this.drawSandwich();
        if (part === 'graph' || part === 'both') this.flame.resize();
    }

    // Of the stacks as they are, also when the graph is inverted.
    drawTable() {
        if (this.part !== 'table' && this.part !== 'both') return;
        this.straight ??= isOn('i') ? buildTree(this.shown, this.shownType, stackPaths(this.shown, { ...this.options(), inverted: false })) : this.tree;
        this.table.show(this.straight, this.unit, !!this.base, this.part === 'both' ? null : this.regex, getState('so')); // beside the graph, the graph shows what is found
    }

    // Marks a function in the graph.
    find(fn) {
        this.box.value = exactly(this.shown.functions[fn].name);
        this.search(this.box.value);
        this.nextMatch(1);
    }

    openSandwich(fn) {
        if (fn >= 0) setState({ sel: this.shown.functions[fn].name });
        this.setPart('callers');
    }

    drawSandwich() {
        const functions = this.shown.functions, { selected } = this.flame, hottest = selected > 0 ? this.tree.fn[selected] : hottestFunction(this.shown, this.shownType);
        const name = getState('sel') || functions[hottest]?.name || '';
        const fn = functions.findIndex((one) => one.name === name);
        if (fn >= 0) this.sandwich.show(this.shown, this.shownType, fn, this.options(), this.unit, this.settings());
        else this.listBox.replaceChildren(message('hint', name ? `${name} is not in this profile: choose a function in the graph or the table` : 'choose a function in the graph or the table'));
    }

    search(text, isNew = true) {
        if (isNew) setState({ q: text });
        this.regex = searchRegex(text);
        const found = this.regex ? searchTree(this.tree, this.regex) : null;
        this.found = found;
        this.flame.hit = found?.hit ?? null;
        this.count.textContent = found ? `${percent(found.sum, this.tree.total[0])} matched` : '';
        this.flame.draw();
        this.drawTable();
        if (isNew) for (const listener of this.searchListeners) listener(text);
    }

    onSearch(callback) {
        this.searchListeners.push(callback);
        if (getState('q')) callback(getState('q'));
    }

    nextMatch(step) {
        const nodes = this.found?.nodes ?? [];
        if (!nodes.length) return;
        const at = nodes.findIndex((n) => n >= this.flame.selected), here = nodes[at] === this.flame.selected;
        const from = at < 0 ? (step > 0 ? -1 : 0) : here || step < 0 ? at : at - 1;
        this.flame.select(nodes[(from + step + nodes.length) % nodes.length]);
    }

    focus(n) {
        if (n > 0) this.change({ f: exactly(nodeName(this.tree, n)), z: null });
    }

    hide(n) {
        const one = exactly(nodeName(this.tree, n));
        if (n > 0) this.change({ hd: getState('hd') ? `${getState('hd')}|${one}` : one, z: null });
    }

    reset() {
        this.box.value = '';
        setState({ q: null, f: null, hd: null, mo: null, z: null }, true);
        this.build();
    }

    escape() {
        if (this.part !== 'graph' && this.part !== 'both') this.setPart('graph');
        else this.flame.zoom(this.flame.zoomed > 0 ? this.tree.parent[this.flame.zoomed] : 0);
    }

    openMenu(n, x, y) {
        const t = this.tree, fn = n > 0 ? t.profile.functions[t.fn[n]] : null, box = this.canvas.getBoundingClientRect();
        if (!fn) return;
        const source = fn.file && `${fn.file}${t.line[n] ? `:${t.line[n]}` : ''}`;
        const items = [{ text: 'Zoom to this frame', run: () => this.flame.zoom(n) }, { text: 'Callers and callees', run: () => this.openSandwich(t.fn[n]) },
            { text: 'Focus on stacks through it', run: () => this.focus(n) }, { text: 'Hide this function', run: () => this.hide(n) },
            { text: 'Copy name', run: () => copyText(fn.name, 'name') }];
        if (this.profile.places.length && !isOffline() && [KIND.APPLICATION, KIND.LIBRARY].includes(fn.kind)) items.push({ text: 'Code', run: () => showCode(this.profile, this.type, fn) });
        if (source) items.push({ text: `Copy source line ${source.slice(source.lastIndexOf('/') + 1)}`, run: () => copyText(source, 'source line') });
        showMenu(items, x ?? box.left + 40, y ?? box.top + 40);
    }

    // True if the key was one of ours.
    onKey(event) {
        const arrow = ARROWS[event.key], row = KEYS.find(([key]) => key === event.key);
        if (arrow && !this.body.hidden && document.activeElement === this.canvas) {
            this.flame.select(this.flame.neighbour(arrow));
            return true;
        }
        if (!row?.[2] || (event.key === 'Enter' && document.activeElement !== this.canvas)) return false;
        row[2](this);
        return true;
    }
}

export const createViewer = (container, options = {}) => new Viewer(container, options);
