// SPDX-License-Identifier: Apache-2.0
// Time on a canvas, from which ranges are chosen: strips here, heat maps in heatmap.js. A drag chooses a range; a drag with Shift or
// Ctrl, or after a press of the button, a second one to compare with. Keyboard: arrows move the cursor, with Shift they extend the
// range, Enter chooses it, Ctrl+Enter as the second one, Escape clears both. The line below describes what is under the cursor.
import { button, fitCanvas, formatSeconds, formatTime, formatValue, h, themeColours } from './dom.js';

const AXIS_TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
const AXIS_HEIGHT = 16;

// "1.25 cores", "3.00 MiB/s"
export function rateText(value, unit) {
    if (unit === 'cores' || unit === 'threads') return `${value.toFixed(2)} ${unit}`;
    return unit.endsWith('/s') ? `${formatValue(value, unit.slice(0, -2))}/s` : formatValue(value, unit);
}

export function rangeText(from, until) {
    return `${formatTime(from, until - from < 7200)} – ${formatTime(until, until - from < 7200)} (${formatSeconds(until - from)})`;
}

// Lines for what must be told apart without its colour.
export function hatch(context, x, y, width, height, colour) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.beginPath();
    for (let at = Math.floor((x - height) / 6) * 6; at < x + width; at += 6) {
        context.moveTo(at, y + height);
        context.lineTo(at + height, y);
    }
    Object.assign(context, { strokeStyle: colour, lineWidth: 1 }).stroke();
    context.restore();
}

function tickText(time, step) {
    const date = new Date(time * 1000), isDay = step >= 86400 || (step >= 3600 && date.getHours() < 1);
    return isDay ? date.toLocaleDateString('en', { month: 'short', day: 'numeric' }) : date.toTimeString().slice(0, step < 60 ? 8 : 5);
}

// A subclass has paint(context, colours, bottom), size(), timeOf(x, y), xOf(time), describe(time) and moves(). Its data has from, until,
// step, and isRelative if times do not begin with the epoch.
export class TimeCanvas {
    constructor(container, { label, onselect, second = 'Second range', hint }) {
        Object.assign(this, { onselect, ranges: [null, null], data: null, cursor: null, anchor: null, hover: null, drag: null });
        this.hint = hint ?? 'Drag to choose a range, Shift-drag for a second one to compare with. Or use the arrows, Shift and Enter.';
        this.canvas = h('canvas', { tabindex: '0', role: 'slider', 'aria-label': label, 'data-keys': true, onkeydown: (event) => this.key(event),
            onpointerdown: (event) => this.press(event), onpointermove: (event) => this.move(event), onpointercancel: () => this.setSecond(false),
            onpointerup: () => this.drag && this.choose(this.drag.from, this.drag.to, this.drag.side), onpointerleave: () => this.schedule({ hover: null }),
            oncontextmenu: (event) => event.ctrlKey && event.preventDefault(), onfocus: () => this.schedule(), onblur: () => this.schedule() });
        this.second = button(second, () => this.setSecond(!this.isSecond));
        this.cleared = button('Clear', () => this.clear(true));
        this.line = h('span', { class: 'strip-line' });
        this.element = h('div', { class: 'strip' }, h('div', { class: 'strip-scroll' }, this.canvas),
            h('div', { class: 'bar' }, this.line, this.second, this.cleared));
        this.element.hidden = true;
        container.append(this.element);
        this.setSecond(false);
        new ResizeObserver(() => this.schedule()).observe(this.element);
        for (const [source, name] of [[document, 'sonde-theme'], [matchMedia('(prefers-color-scheme: dark)'), 'change']]) {
            const redraw = () => (this.element.isConnected ? this.schedule() : source.removeEventListener(name, redraw));
            source.addEventListener(name, redraw);
        }
    }

    press(event) {
        if (event.button || !this.data) return;
        const time = this.timeOf(event.offsetX, event.offsetY), side = event.shiftKey || event.ctrlKey || event.metaKey || this.isSecond ? 1 : 0;
        this.canvas.setPointerCapture(event.pointerId);
        this.schedule({ cursor: time, anchor: null, drag: { from: time, to: time, side } });
    }

    move(event) {
        const hover = this.data && this.timeOf(event.offsetX, event.offsetY);
        if (this.drag) this.drag.to = hover;
        this.schedule({ hover });
    }

    key(event) {
        if (!this.data) return;
        const { from, until, step } = this.data, move = this.moves()[event.key], at = this.cursor ?? until - step / 2;
        if (move !== undefined) {
            const cursor = Math.min(Math.max(at + move, from + step / 2), until - step / 2);
            this.schedule({ anchor: event.shiftKey ? this.anchor ?? at : null, cursor, hover: null });
        } else if (event.key === 'Enter' && this.cursor !== null) {
            this.choose(this.anchor ?? this.cursor, this.cursor, event.ctrlKey || this.isSecond ? 1 : 0);
        } else if (event.key === 'Escape') this.clear(true);
        else return;
        event.preventDefault();
    }

    // Ranges have whole steps. Both ends belong to the range, in whatever order they are.
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
        this.element.hidden = false;
        this.schedule({ data });
    }

    schedule(changes = {}) {
        Object.assign(this, changes);
        this.frame ??= requestAnimationFrame(() => {
            this.frame = undefined;
            if (!this.data || !this.element.isConnected) return;
            this.draw();
            this.showText();
        });
    }

    draw() {
        const [width, height] = this.size(), context = fitCanvas(this.canvas, width, height + AXIS_HEIGHT), colours = themeColours();
        context.clearRect(0, 0, width, height + AXIS_HEIGHT);
        context.font = '11px system-ui, sans-serif';
        this.drawAxis(context, colours, width, height);
        this.paint(context, colours, height);
    }

    drawAxis(context, colours, width, bottom) {
        const { from, until, isRelative } = this.data, wanted = (until - from) * 80 / width, step = AXIS_TICKS.find((one) => one >= wanted) ?? AXIS_TICKS.at(-1);
        const zone = isRelative ? 0 : new Date(from * 1000).getTimezoneOffset() * 60;
        for (let time = Math.ceil((from - zone) / step) * step + zone; time < until; time += step) {
            const x = Math.round(this.xOf(time));
            context.fillStyle = colours.line;
            context.fillRect(x, 0, 1, bottom + 5);
            context.fillStyle = colours.faint;
            if (x < width - 48) context.fillText(isRelative ? `${time} s` : tickText(time, step), x + 3, bottom + 12);
        }
        context.fillRect(0, bottom, width, 1);
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
        const text = this.pointed !== null && !this.drag ? this.describe(this.pointed) : '', cursor = this.cursor === null ? this.hint : this.describe(this.cursor);
        this.line.textContent = text || (this.isSecond ? 'Now choose the range to compare with.' : ranges || this.hint);
        this.cleared.hidden = !ranges;
        for (const [key, value] of Object.entries({ min: from, max: until, now: this.cursor ?? until })) this.canvas.setAttribute(`aria-value${key}`, value.toFixed(2));
        this.canvas.setAttribute('aria-valuetext', ranges ? `${cursor}. Chosen: ${ranges}` : cursor);
    }

    rangeText(from, until) {
        return this.data.isRelative ? `${from.toFixed(2)} s – ${until.toFixed(2)} s` : rangeText(from, until);
    }
}

// data: { from, until, step, series: [{ times, values, ends }], marks: [{ time, text }], gaps: [[from, until]] }; times are Unix seconds.
class Strip extends TimeCanvas {
    constructor(container, options) {
        super(container, options);
        Object.assign(this, { unit: options.unit ?? 'cores', bars: options.bars ?? true, height: options.height ?? 96 });
    }

    size() {
        this.width = Math.max(this.element.clientWidth, 50);
        return [this.width, this.height - AXIS_HEIGHT];
    }

    timeOf(x) {
        return this.data.from + Math.min(Math.max(x / this.width, 0), 1) * (this.data.until - this.data.from);
    }

    xOf(time) {
        return (time - this.data.from) / (this.data.until - this.data.from) * this.width;
    }

    moves() {
        const { from, until, step } = this.data, stride = Math.ceil(3 * (until - from) / this.width / step) * step;
        return { ArrowLeft: -stride, ArrowRight: stride, Home: -Infinity, End: Infinity };
    }

    describe(time) {
        const { series: [first], marks = [], step, from, until } = this.data, at = (first?.times ?? []).findLastIndex((one) => one <= time);
        const end = at < 0 ? 0 : first.ends?.[at] ?? first.times[at] + step, near = marks.filter((mark) => Math.abs(mark.time - time) < 5 * (until - from) / this.width);
        const value = end > time ? `${formatTime(first.times[at], step < 60)}: ${rateText(first.values[at], this.unit)}` : `${formatTime(time, step < 60)}: no data`;
        return [value, ...near.map((mark) => mark.text)].join(' · ');
    }

    paint(context, colours, bottom) {
        const { series, gaps = [] } = this.data, peak = series.reduce((most, one) => one.values.reduce((a, b) => Math.max(a, b), most), 1e-9);
        for (const [from, until] of gaps) hatch(context, this.xOf(from), 0, this.xOf(until) - this.xOf(from), bottom, colours.faint);
        series.forEach((one, i) => this.drawSeries(context, one, i ? colours.second : colours.accent, bottom, (bottom - 15) / peak));
        context.fillStyle = colours.faint;
        if (peak > 1e-9) context.fillText(rateText(peak, this.unit), 4, 11);
        this.drawMarks(context, colours, bottom);
        for (const [range, side] of this.chosen()) this.drawRange(context, colours, bottom, range, side);
        context.fillStyle = colours.ink;
        if (this.pointed !== null) context.fillRect(Math.round(this.xOf(this.pointed)), 0, 1, bottom);
    }

    drawSeries(context, { times, values, ends }, colour, bottom, scale) {
        const { step } = this.data;
        Object.assign(context, { fillStyle: colour, strokeStyle: colour, lineWidth: 1.5 }).beginPath();
        for (let i = 0; i < times.length; i++) {
            const x = Math.floor(this.xOf(times[i])), end = Math.floor(this.xOf(ends?.[i] ?? times[i] + step)), y = bottom - values[i] * scale;
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
        const x = this.xOf(from), width = Math.max(this.xOf(until) - x, 2), colour = side ? colours.second : colours.ink, text = side ? 'base' : 'shown';
        if (side) hatch(context, x, 0, width, bottom, colour);
        Object.assign(context, { fillStyle: colour, strokeStyle: colour, lineWidth: 2, globalAlpha: side ? 0 : 0.15 }).fillRect(x, 0, width, bottom);
        context.globalAlpha = 1;
        context.strokeRect(x + 1, 1, Math.max(width - 2, 1), bottom - 2);
        if (width < 42) return;
        Object.assign(context, { strokeStyle: colours.paper, lineWidth: 4 }).strokeText(text, x + 6, bottom - 6);
        context.fillText(text, x + 6, bottom - 6);
    }
}

export const createStrip = (container, options) => new Strip(container, options);
