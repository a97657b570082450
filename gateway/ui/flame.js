// SPDX-License-Identifier: Apache-2.0
// The flame graph on a canvas. Only what is wide enough to see is visited, so a redraw costs what is on the screen, not what is in
// the profile. A view is a range of the root's width, [from, to] of 0..1, and a first row.
import { certain, KIND } from './profile.js';
import { fitCanvas, themeColours } from './dom.js';
import { shownName, textHash } from './tree.js';

const ROW = 19, FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', NARROWEST = 1.5;
// The hues of the pictures that the service draws: the program, libraries, JIT code, the kernel, memory, threads.
const HUES = {
    application: ['#f5b567', '#f3c95f', '#f0a27c', '#e9bd8c'],
    library: ['#8fc3e8', '#9fd4b6', '#c4b3e6', '#b8d57c', '#7fd0cd', '#e7abc8', '#aabaee', '#d9cd90', '#97d7ec', '#d3abdd'],
    memory: ['#8fd18f', '#a8d8a0', '#7cc8a4', '#b6db8c', '#88cab8', '#9fce68'],
    grown: ['#fbd0cd', '#f8aba5', '#f5857e', '#f26056'], shrunk: ['#cee0fd', '#a7c7fb', '#80aef9', '#5895f7'],
    share: ['#f6e3b4', '#f5cf87', '#f3b562', '#ef9547', '#e77237'],
};
// Four shades of each hue, by function.
const shade = (hex, n) => `#${[1, 3, 5].map((at) => Math.round(255 - (255 - parseInt(hex.slice(at, at + 2), 16)) * SHADES[n & 3]).toString(16).padStart(2, '0')).join('')}`;
const JIT = '#f39ca2', KERNEL = '#a9b6c4', PLAIN = '#c4c6ca', THREAD = '#d5d9e0', SHADES = [1, 0.94, 0.88, 0.82];

const pick = (list, text) => list[textHash(text) % list.length];

export function moduleColour(fn, isMemory = false) {
    if (fn.kind === KIND.THREAD) return THREAD;
    if (fn.kind === KIND.NOTE) return PLAIN;
    if (isMemory) return pick(HUES.memory, fn.module);
    if (fn.kind === KIND.APPLICATION) return pick(HUES.application, fn.module);
    if (fn.kind === KIND.KERNEL) return KERNEL;
    if (fn.kind === KIND.JIT) return JIT;
    return fn.module ? pick(HUES.library, fn.module) : PLAIN;
}

// The change of a node: its sign, and four steps of size, as in the service's pictures. { sign: 0 } is no change. Where tree.changes
// has verdicts, it is what is certain of the change.
export function changeOf(tree, n, byShare) {
    const scale = byShare ? [tree.total[0] || 1, tree.baseTotal[0] || 1] : [1, 1], before = tree.baseTotal[n] / scale[1];
    const now = tree.changes ? Math.max(0, before + certain(tree.changes[n])) : tree.total[n] / scale[0], larger = Math.max(now, before);
    const ratio = larger ? Math.abs(now - before) / larger : 0, smallest = byShare ? 0.0005 : 0.0005 * Math.max(tree.total[0], tree.baseTotal[0]);
    if (Math.abs(now - before) < smallest) return { sign: 0, step: 0, ratio: 0 };
    return { sign: now > before ? 1 : -1, step: ratio < 0.1 ? 0 : ratio < 0.3 ? 1 : ratio < 0.6 ? 2 : 3, ratio };
}

export class Flame {
    // Events: onhover(n), onselect(n), onzoom(n), onmenu(n, x, y), onframe(ms).
    constructor(canvas, events) {
        Object.assign(this, { canvas, events, tree: null, from: 0, to: 1, top: 0, zoomed: 0, selected: 0, hovered: -1, hit: null, upwards: false, firstDepth: 0 });
        Object.assign(this, { colourBy: 'module', byShare: true, isMemory: false, isDiff: false, colours: [], wanted: 0, drag: null, least: 120 });
        const on = (type, handle) => canvas.addEventListener(type, (event) => handle.call(this, event));
        on('pointermove', this.onMove);
        on('pointerdown', this.onDown);
        on('pointerup', this.onUp);
        on('pointerleave', () => this.hover(-1));
        on('dblclick', () => this.zoom(0));
        on('wheel', this.onWheel);
        on('contextmenu', this.onMenu);
        this.observer = new ResizeObserver(() => this.resize());
        this.observer.observe(canvas.parentElement);
    }

    destroy() {
        this.observer.disconnect();
        cancelAnimationFrame(this.wanted);
    }

    show(tree, zoomedId) {
        this.tree = tree;
        this.colours = tree.profile.functions.map((fn, n) => shade(moduleColour(fn, this.isMemory), n));
        this.hovered = -1;
        this.resize();
        this.zoom(Math.max(0, tree.id.indexOf(zoomedId)), false);
    }

    resize() {
        if (!this.tree) return;
        const width = Math.max(200, this.canvas.parentElement.clientWidth), rows = this.tree.deepest + 1 - this.firstDepth;
        const most = Math.max(320, window.innerHeight - 210), height = Math.max(this.least, Math.min(rows * ROW + 4, most));
        Object.assign(this, { width, height });
        this.draw();
    }

    draw() {
        cancelAnimationFrame(this.wanted);
        this.wanted = requestAnimationFrame(() => this.drawNow());
    }

    y(depth) {
        return (this.upwards ? this.tree.deepest - depth : depth - this.firstDepth) * ROW - this.top;
    }

    get highest() {
        return Math.max(0, (this.tree.deepest + 1 - this.firstDepth) * ROW + 4 - this.height);
    }

    drawNow() {
        const started = performance.now(), c = fitCanvas(this.canvas, this.width, this.height), t = this.tree, theme = themeColours();
        c.clearRect(0, 0, this.width, this.height);
        c.font = FONT;
        c.textBaseline = 'middle';
        const whole = t.total[0] || 1, scale = this.width / (this.to - this.from);
        let drawn = 0;
        this.painted = new Float64Array(t.deepest + 1).fill(-1);
        for (let n = 0; n < t.count;) {
            const x = (t.offset[n] / whole - this.from) * scale, w = t.total[n] / whole * scale, y = this.y(t.depth[n]);
            if (x > this.width || x + w < 0) {
                n = t.end[n];
            } else if (w < NARROWEST) {
                n = this.drawRest(c, n, x, y, scale / whole);
            } else {
                if (y > -ROW && y < this.height && t.depth[n] >= this.firstDepth) drawn += this.drawNode(c, n, x, w, y, theme);
                n++;
            }
        }
        this.drawn = drawn;
        this.events.onframe?.(performance.now() - started);
    }

    // A strip for the node and its smaller siblings. Returns the node after them.
    drawRest(c, n, x, y, scale) {
        const t = this.tree, up = t.parent[n];
        const right = (t.offset[up] + t.total[up] - t.self[up] - t.offset[n]) * scale;
        if (x + right < this.painted[t.depth[n]] + 0.7 || y <= -ROW || y >= this.height) return t.end[up]; // nothing that a pixel would show
        this.painted[t.depth[n]] = x + right;
        c.fillStyle = PLAIN;
        c.fillRect(x, y, right, ROW - 1);
        return t.end[up];
    }

    colour(n) {
        const t = this.tree;
        if (n === 0) return THREAD;
        if (this.isDiff) {
            const { sign, step } = changeOf(t, n, this.byShare);
            return sign ? HUES[sign > 0 ? 'grown' : 'shrunk'][step] : THREAD;
        }
        if (this.colourBy !== 'share') return this.colours[t.fn[n]];
        const share = t.self[n] / (t.total[0] || 1);
        return HUES.share[share < 0.002 ? 0 : share < 0.01 ? 1 : share < 0.03 ? 2 : share < 0.1 ? 3 : 4];
    }

    drawNode(c, n, x, w, y, theme) {
        const left = Math.max(x, 0), width = Math.min(x + w, this.width) - left, isCaller = n !== this.zoomed && this.tree.end[n] >= this.tree.end[this.zoomed] && n < this.zoomed;
        const alpha = isCaller ? 0.55 : this.hit && !this.hit[n] ? 0.45 : 1;
        if (alpha < 1) c.globalAlpha = alpha;
        c.fillStyle = this.colour(n);
        c.fillRect(left, y, Math.max(0.4, width - 0.7), ROW - 1);
        if (alpha < 1) c.globalAlpha = 1;
        if (this.hit?.[n]) this.outline(c, left, y, width, '#8b2be2', 2);
        if (n === this.selected && n > 0) this.outline(c, left, y, width, theme.ink, 2);
        else if (n === this.hovered) this.outline(c, left, y, width, theme.ink, 1);
        if (width > 24) this.label(c, n, left, width, y, theme);
        return 1;
    }

    outline(c, x, y, width, colour, size) {
        c.strokeStyle = colour;
        c.lineWidth = size;
        c.strokeRect(x + size / 2, y + size / 2, Math.max(0.5, width - 0.7 - size), ROW - 1 - size);
    }

    label(c, n, x, width, y, theme) {
        let text = shownName(this.tree, n);
        if (this.isDiff && n > 0) {
            const { sign } = changeOf(this.tree, n, this.byShare);
            text = (sign > 0 ? '▲ ' : sign < 0 ? '▼ ' : '') + text;
        }
        const fit = Math.floor((width - 7) / 7.23);
        if (fit < 2) return;
        const isFaint = (this.hit && !this.hit[n]) || (n < this.zoomed && n !== this.zoomed);
        c.fillStyle = isFaint ? theme.ink : '#14171f';
        c.fillText(text.length > fit ? `${text.slice(0, fit - 1)}…` : text, x + 3, y + ROW / 2);
    }

    // ---- Moving ----

    // Makes the node as wide as the canvas.
    zoom(n, tell = true) {
        const t = this.tree, whole = t.total[0] || 1;
        Object.assign(this, { zoomed: n, from: t.offset[n] / whole, to: (t.offset[n] + t.total[n]) / whole });
        if (this.to <= this.from) Object.assign(this, { from: 0, to: 1 });
        const row = this.y(t.depth[n]) + this.top;
        this.top = Math.max(0, Math.min(this.highest, this.upwards ? row - this.height + 4 * ROW : row - 3 * ROW));
        this.draw();
        if (tell) this.events.onzoom(n);
    }

    pan(dx, dy) {
        const width = this.to - this.from, by = Math.max(-this.from, Math.min(1 - this.to, dx / this.width * width));
        Object.assign(this, { from: this.from + by, to: this.to + by, top: Math.max(0, Math.min(this.highest, this.top + dy)) });
        if (width > 0.9999) Object.assign(this, { from: 0, to: 1 });
        this.draw();
    }

    // Narrows or widens the view around a place of the canvas.
    scale(factor, x) {
        const at = this.from + x / this.width * (this.to - this.from), width = Math.min(1, Math.max(1e-7, (this.to - this.from) * factor));
        const from = Math.max(0, Math.min(1 - width, at - x / this.width * width));
        Object.assign(this, { from, to: from + width });
        this.draw();
    }

    select(n) {
        this.selected = n;
        const y = this.y(this.tree.depth[n]), t = this.tree, whole = t.total[0] || 1;
        if (y < 0 || y > this.height - ROW) this.top = Math.max(0, Math.min(this.highest, this.top + y - this.height / 2));
        const left = t.offset[n] / whole, right = left + t.total[n] / whole;
        if (right < this.from || left > this.to) this.zoom(t.parent[n] > 0 ? t.parent[n] : 0);
        this.draw();
        this.events.onselect(n);
    }

    // The neighbour of the selected node: 'up' is its caller, 'down' its widest callee.
    neighbour(direction) {
        const t = this.tree, n = this.selected, up = t.parent[n];
        if (direction === 'up') return Math.max(0, up);
        if (direction === 'down') return t.end[n] > n + 1 ? n + 1 : n;
        if (n === 0) return n;
        if (direction === 'right') return t.end[n] < t.end[up] ? t.end[n] : n;
        let before = up + 1;
        while (before < n && t.end[before] !== n) before = t.end[before];
        return before < n ? before : n;
    }

    // ---- The pointer ----

    // The node at a place, or -1.
    find(x, y) {
        const t = this.tree, row = Math.floor((y + this.top) / ROW), depth = this.upwards ? t.deepest - row : row + this.firstDepth;
        const at = (this.from + x / this.width * (this.to - this.from)) * (t.total[0] || 1);
        if (depth < 0 || depth > t.deepest) return -1;
        let n = 0;
        while (t.depth[n] < depth) {
            let kid = n + 1;
            const end = t.end[n];
            while (kid < end && t.offset[kid] + t.total[kid] <= at) kid = t.end[kid];
            if (kid >= end || t.offset[kid] > at) return -1;
            n = kid;
        }
        return n;
    }

    hover(n) {
        if (n === this.hovered) return;
        this.hovered = n;
        this.canvas.style.cursor = n >= 0 ? 'pointer' : 'default';
        this.draw();
        this.events.onhover(n);
    }

    onMove(event) {
        if (this.drag) {
            const dx = this.drag.x - event.offsetX, dy = this.drag.y - event.offsetY;
            this.drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
            if (this.drag.moved) {
                this.pan(dx, dy);
                Object.assign(this.drag, { x: event.offsetX, y: event.offsetY });
            }
            return;
        }
        if (this.tree) this.hover(this.find(event.offsetX, event.offsetY));
    }

    onDown(event) {
        if (event.button !== 0) return;
        this.drag = { x: event.offsetX, y: event.offsetY, moved: false };
        this.canvas.setPointerCapture(event.pointerId);
    }

    onUp(event) {
        const drag = this.drag, n = this.tree ? this.find(event.offsetX, event.offsetY) : -1;
        this.drag = null;
        if (!drag || drag.moved || n < 0) return;
        this.select(n);
        this.zoom(n);
    }

    onWheel(event) {
        if (event.ctrlKey || event.metaKey) this.scale(Math.exp(event.deltaY / 300), event.offsetX);
        else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX || event.deltaY, 0);
        else if (this.highest > 0) this.pan(0, event.deltaY);
        else return;
        event.preventDefault();
    }

    onMenu(event) {
        const n = this.tree ? this.find(event.offsetX, event.offsetY) : -1;
        if (n < 0) return;
        event.preventDefault();
        this.selected = n;
        this.draw();
        this.events.onmenu(n, event.clientX, event.clientY);
    }
}
