// SPDX-License-Identifier: Apache-2.0
// Time on a canvas, from which ranges are chosen: strips here, heat maps in heatmap.js. A drag chooses a range; a drag with Shift or
// Ctrl, or after a press of the button, a second one to compare with. Keyboard: arrows move the cursor, with Shift they extend the
// range, Enter chooses it, Ctrl+Enter as the second one, Escape clears both. The line below describes what is under the cursor.
import { button, fitCanvas, formatSeconds, formatTime, formatValue, h, themeColours } from './dom.js';

const STRIP_TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
const STRIP_AXIS = 16;

// "1.25 cores", "3.00 MiB/s"
export function rateText(value, unit) {
    if (unit === 'cores' || unit === 'threads') return `${value.toFixed(2)} ${unit}`;
    return unit.endsWith('/s') ? `${formatValue(value, unit.slice(0, -2))}/s` : formatValue(value, unit);
}

export const rangeText = (from, until) => [from, until].map((time) => formatTime(time, until - from < 7200)).join(' – ') + ` (${formatSeconds(until - from)})`;

// Lines for what must be told apart without its colour.
export function hatch(context, x, y, width, height, colour) {
    context.save();
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.beginPath();
    for (let at = Math.floor((x - height) / 6) * 6; at < x + width; at += 6) {
        context.moveTo(at, y + height);
        context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
}

function tickText(time, step) {
    const date = new Date(time * 1000), isDay = step >= 86400 || (step >= 3600 && date.getHours() < 1);
    return isDay ? date.toLocaleDateString('en', { month: 'short', day: 'numeric' }) : date.toTimeString().slice(0, step < 60 ? 8 : 5);
}

// A subclass has draw(context, colours), timeOf(x, y), describe(time) and moves(), and data with from, until and step.
export class TimeCanvas {
    constructor(container, { label, height = 96, onselect, second = 'Second range', hint }) {
        Object.assign(this, { height, onselect, data: null, ranges: [null, null], cursor: null, anchor: null, hover: null, drag: null });
        this.hint = hint ?? 'Drag to choose a range, Shift-drag for a second one to compare with. Or use the arrows, Shift and Enter.';
        this.canvas = h('canvas', { tabindex: '0', role: 'slider', 'aria-label': label, 'data-keys': true, onpointerdown: (event) => this.press(event),
            onpointermove: (event) => this.move(event), onpointerup: () => this.release(), onpointercancel: () => this.setSecond(false),
            onpointerleave: () => this.schedule({ hover: null }), onkeydown: (event) => this.key(event), oncontextmenu: (event) => event.ctrlKey && event.preventDefault(),
            onfocus: () => this.schedule(), onblur: () => this.schedule() });
        this.second = button(second, () => this.setSecond(!this.isSecond), { title: 'the next range that you choose is the one to compare with' });
        this.cleared = button('Clear', () => this.clear(true), { title: 'forget the chosen ranges (Escape)' });
        this.line = h('span', { class: 'strip-line' });
        this.element = h('div', { class: 'strip' }, h('div', { class: 'strip-scroll' }, this.canvas), h('div', { class: 'bar' }, this.line, this.second, this.cleared));
        container.append(this.element);
        this.setSecond(false);
        this.observer = new ResizeObserver(() => this.schedule());
        this.observer.observe(this.element);
        document.addEventListener('sonde-theme', this.onTheme = () => (this.element.isConnected ? this.schedule() : this.destroy()));
    }

    destroy() {
        this.observer.disconnect();
        document.removeEventListener('sonde-theme', this.onTheme);
    }

    press(event) {
        const time = this.data && this.timeOf(event.offsetX, event.offsetY);
        if (event.button || time === null) return;
        this.canvas.setPointerCapture(event.pointerId);
        this.schedule({ cursor: time, anchor: null, drag: { from: time, to: time, side: event.shiftKey || event.ctrlKey || event.metaKey || this.isSecond ? 1 : 0 } });
    }

    move(event) {
        const time = this.data && this.timeOf(event.offsetX, event.offsetY);
        if (this.drag && time !== null) this.drag.to = time;
        this.schedule({ hover: time });
    }

    release() {
        if (this.drag) this.choose(this.drag.from, this.drag.to, this.drag.side);
    }

    key(event) {
        const { from, until, step } = this.data ?? {}, move = this.moves()[event.key], last = until - step;
        if (move !== undefined && this.data) {
            const at = this.cursor ?? last;
            this.schedule({ anchor: event.shiftKey ? this.anchor ?? at : null, cursor: Math.min(Math.max(at + move, from), last), hover: null });
        } else if (event.key === 'Enter' && this.cursor !== null) this.choose(this.anchor ?? this.cursor, this.cursor, event.ctrlKey || this.isSecond ? 1 : 0);
        else if (event.key === 'Escape') this.clear(true);
        else return;
        event.preventDefault();
    }

    // Both steps belong to the range, in whatever order they are.
    whole(a, b) {
        const { from, until, step } = this.data, low = Math.max(Math.min(a, b), from), high = Math.min(Math.max(a, b), until - step / 2);
        return [Math.floor(low / step + 1e-6) * step, (Math.floor(high / step + 1e-6) + 1) * step];
    }

    choose(a, b, side) {
        this.ranges[side] = this.whole(a, b);
        this.setSecond(false);
        this.onselect(...this.ranges[side], side === 1);
    }

    setSecond(isSecond) {
        this.second.setAttribute('aria-pressed', String(isSecond));
        this.schedule({ isSecond, drag: null, anchor: null });
    }

    select(from, until) {
        this.ranges[0] = [from, until];
        this.schedule();
    }

    selectBase(from, until) {
        this.ranges[1] = [from, until];
        this.schedule();
    }

    // Calls onselect(null, null, false) if the user did it.
    clear(byUser = false) {
        const had = this.ranges.some(Boolean);
        this.ranges = [null, null];
        this.setSecond(false);
        if (byUser && had) this.onselect(null, null, false);
    }

    set(data) {
        this.schedule({ data });
    }

    schedule(changes = {}) {
        Object.assign(this, changes);
        this.frame ??= requestAnimationFrame(() => {
            this.frame = undefined;
            if (!this.data || !this.element.isConnected) return;
            this.draw(themeColours());
            this.showText();
        });
    }

    // What is drawn as chosen: [range, side], also while it is being chosen.
    chosen() {
        const current = this.drag ? this.whole(this.drag.from, this.drag.to) : this.anchor !== null ? this.whole(this.anchor, this.cursor) : null;
        const side = this.drag?.side ?? (this.isSecond ? 1 : 0);
        return this.ranges.map((range, i) => [current && side === i ? current : range, i]).filter(([range]) => range);
    }

    get pointed() {
        return this.hover ?? (document.activeElement === this.canvas ? this.cursor : null);
    }

    showText() {
        const { from, until } = this.data, ranges = this.chosen().map(([range, side]) => (side ? 'compared with ' : '') + this.rangeText(...range)).join(', ');
        const text = this.pointed !== null && !this.drag ? this.describe(this.pointed) : '';
        this.line.textContent = text || (this.isSecond ? 'Now choose the range to compare with.' : ranges || this.hint);
        this.cleared.hidden = !ranges;
        for (const [key, value] of Object.entries({ min: from, max: until, now: this.cursor ?? until })) this.canvas.setAttribute(`aria-value${key}`, value.toFixed(2));
        this.canvas.setAttribute('aria-valuetext', `${this.cursor === null ? this.hint : this.describe(this.cursor)} ${ranges && `Chosen: ${ranges}`}`);
    }

    rangeText(from, until) {
        return rangeText(from, until);
    }
}

class Strip extends TimeCanvas {
    constructor(container, options) {
        super(container, options);
        Object.assign(this, { unit: options.unit ?? 'cores', bars: options.bars ?? true });
    }

    timeOf(x) {
        return this.data.from + Math.min(Math.max(x / this.width, 0), 1) * (this.data.until - this.data.from);
    }

    xOf(time) {
        return (time - this.data.from) / (this.data.until - this.data.from) * this.width;
    }

    moves() {
        const { from, until, step } = this.data, stride = Math.ceil(3 * (until - from) / this.width / step) * step, page = (until - from) / 10;
        return { ArrowLeft: -stride, ArrowRight: stride, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
    }

    describe(time) {
        const { series: [first], marks = [], step } = this.data, at = (first?.times ?? []).findLastIndex((one) => one <= time);
        const end = at < 0 ? 0 : first.ends?.[at] ?? first.times[at] + step, near = 5 * (this.data.until - this.data.from) / this.width;
        const value = end > time ? `${formatTime(first.times[at], step < 60)}: ${rateText(first.values[at], this.unit)}` : `${formatTime(time, step < 60)}: no data`;
        return [value, ...marks.filter((mark) => Math.abs(mark.time - time) < near).map((mark) => mark.text)].join(' · ');
    }

    draw(colours) {
        this.width = Math.max(this.element.clientWidth, 50);
        const context = fitCanvas(this.canvas, this.width, this.height), bottom = this.height - STRIP_AXIS, { series, gaps = [] } = this.data;
        const peak = series.reduce((most, one) => one.values.reduce((a, b) => Math.max(a, b), most), 1e-9);
        context.clearRect(0, 0, this.width, this.height);
        context.font = '11px system-ui, sans-serif';
        this.drawAxis(context, colours, bottom);
        for (const [from, until] of gaps) hatch(context, this.xOf(from), 0, this.xOf(until) - this.xOf(from), bottom, colours.faint);
        series.forEach((one, i) => this.drawSeries(context, one, i ? colours.second : colours.accent, bottom, (bottom - 15) / peak));
        context.fillStyle = colours.faint;
        if (peak > 1e-9) context.fillText(rateText(peak, this.unit), 4, 11);
        this.drawMarks(context, colours, bottom);
        for (const [range, side] of this.chosen()) this.drawRange(context, colours, bottom, range, side);
        context.fillStyle = colours.ink;
        if (this.pointed !== null) context.fillRect(Math.round(this.xOf(this.pointed)), 0, 1, bottom);
    }

    drawAxis(context, colours, bottom) {
        const { from, until } = this.data, wanted = (until - from) / (this.width / 80), step = STRIP_TICKS.find((one) => one >= wanted) ?? STRIP_TICKS.at(-1);
        const zone = new Date(from * 1000).getTimezoneOffset() * 60;
        for (let time = Math.ceil((from - zone) / step) * step + zone; time < until; time += step) {
            const x = Math.round(this.xOf(time));
            context.fillStyle = colours.line;
            context.fillRect(x, 0, 1, bottom + 4);
            context.fillStyle = colours.faint;
            if (x < this.width - 48) context.fillText(tickText(time, step), x + 3, this.height - 4);
        }
        context.fillStyle = colours.line;
        context.fillRect(0, bottom, this.width, 1);
    }

    drawSeries(context, { times, values, ends }, colour, bottom, scale) {
        const { step } = this.data;
        context.fillStyle = context.strokeStyle = colour;
        context.lineWidth = 1.5;
        context.beginPath();
        for (let i = 0; i < times.length; i++) {
            const x = this.xOf(times[i]), end = this.xOf(ends?.[i] ?? times[i] + step), y = bottom - values[i] * scale;
            if (this.bars) context.fillRect(x, y, Math.max(end - x - (end - x > 3), 1), bottom - y);
            else context[i && times[i] - times[i - 1] < 1.5 * step ? 'lineTo' : 'moveTo']((x + end) / 2, y);
        }
        if (!this.bars) context.stroke();
    }

    drawMarks(context, colours, bottom) {
        let free = 90;
        context.fillStyle = colours.ink;
        for (const { time, text } of this.data.marks ?? []) {
            const x = this.xOf(time), width = context.measureText(text).width;
            for (let y = 0; y < bottom; y += 6) context.fillRect(x, y, 1, 3);
            if (x < free || x + width + 6 > this.width) continue;
            context.fillText(text, x + 4, 11);
            free = x + width + 12;
        }
    }

    drawRange(context, colours, bottom, [from, until], side) {
        const x = this.xOf(from), width = Math.max(this.xOf(until) - x, 2), colour = side ? colours.second : colours.ink;
        if (side) hatch(context, x, 0, width, bottom, colour);
        context.globalAlpha = side ? 0 : 0.15;
        context.fillStyle = context.strokeStyle = colour;
        context.fillRect(x, 0, width, bottom);
        context.globalAlpha = 1;
        context.lineWidth = 2;
        context.strokeRect(x + 1, 1, Math.max(width - 2, 1), bottom - 2);
        if (width > 40) context.fillText(side ? 'base' : 'shown', x + 5, bottom - 5);
    }
}

export const createStrip = (container, options) => new Strip(container, options);
