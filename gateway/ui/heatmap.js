// SPDX-License-Identifier: Apache-2.0
// A heat map of time: of a saved capture with a column per second and rows of 20 ms, or of history with rows of 10 s. A cell's colour is
// its value. Ranges of cells, in the order of time, have their graph below. Cells whose stacks match the search get a mark.
import { getJson } from './api.js';
import { captureText } from './captures.js';
import { formatSeconds, formatTime, h, message, number, percent } from './dom.js';
import { chooseBox, findService, historyPath, historyState, MAX_STEPS, NO_RANGES, ofService, pointValue, RangeGraph, rangeChoice, recordedChoice, unrecorded } from './history.js';
import { attempt, sleep } from './load.js';
import { getState, setState } from './state.js';
import { hatch, rateText, TimeCanvas } from './strip.js';

// Up to which length of history: the seconds of a cell, and the rows.
const HEAT_LAYOUTS = [[7200, 10, 12], [43200, 10, 30], [172800, 10, 60], [691200, 10, 180], [Infinity, 60, 180]], HEAT_HEIGHT = 252;
const HEAT_COLOURS = { light: [[255, 244, 230], [253, 187, 132], [215, 48, 31], [90, 0, 20]], dark: [[38, 42, 51], [122, 40, 90], [228, 90, 49], [255, 238, 170]] };

// The wildcard that finds the functions of a search: "*text*". Null for other regular expressions.
function wildcardOf(text) {
    const begin = text.startsWith('^') ? '' : '*', end = /(^|[^\\])\$$/.test(text) ? '' : '*';
    let isPlain = true;
    const body = text.slice(begin ? 0 : 1, end ? undefined : -1).replace(/\.\*|\\(.)|[+?()[\]{}|^$]/g, (all, escaped) => {
        isPlain &&= Boolean(escaped) || all === '.*';
        return escaped ?? '*';
    });
    return isPlain ? `${begin}${body}${end}`.replace(/\*+/g, '*') : null;
}

// data: { from, until, step, rows, unit, isRelative, values }; values of NaN are missing. hits: the values of stacks that match, or null.
class HeatCanvas extends TimeCanvas {
    // Colours are quantiles: a few large values would leave no colours to the others, and values that are close would look the same.
    set(data) {
        this.element.hidden = false;
        this.sorted = data.values.filter((value) => value > 0).sort();
        this.schedule({ data, hits: null, cursor: null });
    }

    quantile(share) {
        return this.sorted[Math.round(share * (this.sorted.length - 1))] ?? 0;
    }

    // The share of the values that are smaller; half of those that are equal count, too.
    rank(value) {
        const { sorted } = this, below = (isBelow) => {
            let low = 0, high = sorted.length;
            while (low < high) {
                const middle = (low + high) >> 1;
                if (isBelow(sorted[middle])) low = middle + 1;
                else high = middle;
            }
            return low;
        };
        return value > 0 ? (below((one) => one < value) + below((one) => one <= value)) / 2 / sorted.length : 0;
    }

    size() {
        const { rows, values } = this.data, columns = Math.ceil(values.length / rows);
        this.cellWidth = Math.max(this.element.clientWidth / columns, 3);
        this.cellHeight = Math.min(Math.max(Math.floor(HEAT_HEIGHT / rows), 2), 18);
        return [columns * this.cellWidth, rows * this.cellHeight];
    }

    timeOf(x, y) {
        const { from, step, rows, values } = this.data, row = Math.min(Math.max(Math.floor(y / this.cellHeight), 0), rows - 1);
        return from + (Math.min(Math.floor(Math.max(x, 0) / this.cellWidth) * rows + row, values.length - 1) + 0.5) * step;
    }

    xOf(time) {
        return (time - this.data.from) / this.data.step / this.data.rows * this.cellWidth;
    }

    moves() {
        const { step, rows } = this.data;
        return { ArrowUp: -step, ArrowDown: step, ArrowLeft: -step * rows, ArrowRight: step * rows, Home: -Infinity, End: Infinity };
    }

    cellOf(time) {
        return Math.floor((time - this.data.from) / this.data.step + 1e-6);
    }

    describe(time) {
        const { from, step, unit, values, isRelative } = this.data, cell = this.cellOf(time), begin = from + cell * step;
        const hit = this.hits?.[cell] > 0 ? ` · ${percent(this.hits[cell], values[cell])} of it matches the search` : '';
        return `${isRelative ? this.rangeText(begin, begin + step) : formatTime(begin, step < 60)}: ${Number.isNaN(values[cell]) ? 'no data' : rateText(values[cell], unit)}${hit}`;
    }

    // A point per cell, which the browser enlarges.
    picture(isDark) {
        const { values, rows } = this.data, columns = Math.ceil(values.length / rows), picture = new OffscreenCanvas(columns, rows), context = picture.getContext('2d');
        const image = context.createImageData(columns, rows), stops = HEAT_COLOURS[isDark ? 'dark' : 'light'];
        values.forEach((value, i) => {
            if (Number.isNaN(value)) return;
            const at = this.rank(value) * 3, low = Math.min(Math.floor(at), 2);
            image.data.set([0, 1, 2].map((c) => stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (at - low)).concat(255), 4 * ((i % rows) * columns + Math.floor(i / rows)));
        });
        context.putImageData(image, 0, 0);
        return picture;
    }

    paint(context, colours, bottom) {
        const { rows, values } = this.data, width = Math.ceil(values.length / rows) * this.cellWidth;
        hatch(context, 0, 0, width, bottom, colours.line);
        context.imageSmoothingEnabled = false;
        context.drawImage(this.picture(parseInt(colours.paper.slice(1, 3), 16) < 128), 0, 0, width, bottom);
        this.hits?.forEach((hit, cell) => hit > 0 && this.drawHit(context, colours, cell, Math.sqrt(Math.min(hit / values[cell], 1))));
        for (const [range, side] of this.chosen()) this.drawCells(context, colours, this.cellOf(range[0]), this.cellOf(range[1]), side);
        if (this.pointed === null) return;
        const cell = this.cellOf(this.pointed);
        Object.assign(context, { strokeStyle: colours.ink, lineWidth: 2 });
        context.strokeRect(Math.floor(cell / rows) * this.cellWidth - 1, (cell % rows) * this.cellHeight - 1, this.cellWidth + 2, this.cellHeight + 2);
    }

    drawHit(context, colours, cell, size) {
        const x = (Math.floor(cell / this.data.rows) + 0.5) * this.cellWidth, y = (cell % this.data.rows + 0.5) * this.cellHeight;
        for (const [colour, scale] of [[colours.paper, 0.8], [colours.ink, 0.45]]) {
            const width = Math.max(scale * size * this.cellWidth, 1), height = Math.max(scale * size * this.cellHeight, 1);
            context.fillStyle = colour;
            context.fillRect(x - width / 2, y - height / 2, width, height);
        }
    }

    // A range is cut into a rectangle per column. The base is hatched.
    drawCells(context, { ink, paper }, begin, end, side) {
        const { rows } = this.data;
        for (let at = begin, next; at < end; at = next) {
            const column = Math.floor(at / rows), x = column * this.cellWidth, y = (at % rows) * this.cellHeight;
            next = Math.min((column + 1) * rows, end);
            const box = [x, y, this.cellWidth, (next - at) * this.cellHeight];
            Object.assign(context, { fillStyle: ink, strokeStyle: ink, lineWidth: 2, globalAlpha: 0.3 }).fillRect(...box);
            context.globalAlpha = 1;
            if (side) hatch(context, ...box, paper);
            if (at === begin || next === end) context.strokeRect(...box);
        }
    }
}

class HeatMap {
    constructor(ctx, captures, services) {
        Object.assign(this, { ctx, services, captures: captures.filter((one) => number(one.timelineBytes)), turn: 0 });
        Object.assign(this, { controls: h('div', { class: 'bar' }), errors: h('div'), legend: h('p', { class: 'muted heat-legend' }), note: h('p', { class: 'muted', role: 'status' }) });
        ctx.root.append(this.controls, this.errors);
        const hint = 'Drag over cells for their graph, Ctrl-drag for a baseline. Or use the arrows, Shift, Enter and Ctrl+Enter.';
        this.heat = new HeatCanvas(ctx.root, { label: 'heat map', second: 'Baseline', hint, onselect: (...range) => {
            this.graph.choose(...range);
            this.showGraph();
        } });
        ctx.root.append(this.legend, this.note);
        this.graph = new RangeGraph(ctx, this.heat, (from, until) => (this.capture ? `/v1/captures/${this.capture}.pb.gz?from=${from.toFixed(2)}&until=${until.toFixed(2)}`
            : historyPath('profile', { ...this.state.what, from, until, output: 'proto' })), () => (this.capture ? {} : { ra: '0', hf: this.state.from, hu: this.state.until }), { name: 'heatmap', empty: 'no samples in these cells' });
        this.graph.viewer.onSearch((text) => this.heat.data && this.search(text));
    }

    update(changes = {}) {
        setState(changes, true);
        this.capture = getState('capture') || (this.services ? '' : this.captures[0].id);
        this.state = historyState();
        this.drawControls();
        this.graph.clear();
        return attempt(this.errors, this.ctx.signal, async () => {
            const found = this.capture ? '' : await findService(this.services, this.ctx, this.state);
            this.state.what.service = found ?? '';
            this.drawControls(found === null);
            if (found === null) return unrecorded(this, this.services);
            this.heat.set(await this.cells(''));
            this.graph.mark();
            this.drawLegend();
            if (!this.capture) requestAnimationFrame(() => { this.heat.canvas.parentElement.scrollLeft = this.heat.canvas.width; });
            this.showGraph();
            this.search(getState('q'));
        });
    }

    drawControls(isMissing = false) {
        const { what } = this.state, all = this.services && [...(isMissing ? [['', `${this.ctx.label}: not recorded`]] : []), ['h', 'history of all services'], ...this.services.map((one) => [`h${one.name}`, `history of ${one.name}`])];
        const events = this.services?.find((one) => one.name === what.service)?.events ?? this.services?.flatMap((one) => one.events) ?? [];
        const captures = this.captures.map((one) => [`c${one.id}`, `capture ${captureText(one)}`]), source = chooseBox('what is shown', [...(all ?? []), ...captures],
            this.capture ? `c${this.capture}` : isMissing ? '' : `h${what.service}`,
            (value) => value && this.update({ ...ofService(this.ctx, ''), capture: null, all: value === 'h', [value[0] === 'c' ? 'capture' : 'sv']: value.slice(1) }));
        this.controls.replaceChildren(source, ...(this.capture ? [] : [
            recordedChoice(events, what.event, (ev) => this.update({ ev })), rangeChoice((ra) => this.update({ ra, ...NO_RANGES })), what.selector ? h('code', {}, what.selector) : '']));
    }

    // The cells' values, only of stacks with such a function if there is a wildcard. Long ranges of history take several requests.
    async cells(wildcard) {
        const { from, until, what, unit } = this.state, { signal } = this.ctx;
        if (this.capture) {
            const { binMs, value } = await getJson(`/v1/captures/${this.capture}/timeline${wildcard && `?function=${encodeURIComponent(wildcard)}`}`, { signal });
            return { from: 0, until: value.length * binMs / 1000, step: binMs / 1000, rows: Math.round(1000 / binMs), unit: 'cores', isRelative: true,
                values: Float64Array.from(value, (one) => number(one) / binMs / 1e6) };
        }
        const [, step, rows] = HEAT_LAYOUTS.find(([length]) => until - from <= length), begin = Math.floor(from / step / rows) * step * rows;
        const values = new Float64Array(Math.ceil((until - begin) / step)).fill(wildcard ? 0 : NaN);
        for (let at = begin; at < until; at += MAX_STEPS * step) {
            if (!wildcard) this.note.textContent = `loading ${formatTime(at)}…`;
            const { series: [one] } = await getJson(historyPath('series', { ...what, from: at, until: Math.min(at + MAX_STEPS * step, until), step, function: wildcard }), { signal });
            one?.timeUnixS.forEach((time, i) => { values[(number(time) - begin) / step] = pointValue(one.value[i], this.state, step); });
        }
        return { from: begin, until: begin + values.length * step, step, rows, unit, values };
    }

    drawLegend() {
        const { step, rows, unit, values } = this.heat.data, cell = step < 1 ? `${step * 1000} ms` : formatSeconds(step);
        const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => rateText(this.heat.quantile(share), unit));
        this.legend.replaceChildren(h('span', { class: 'heat-key', title: 'each quarter of the scale has a quarter of the cells' }, h('i', { class: 'heat-scale', 'aria-hidden': 'true' }), h('span', {}, marks.map((text) => h('span', {}, text)))),
            `a cell: ${cell}, a column: ${formatSeconds(step * rows)} · each quarter of the scale has as many cells · hatched: no data`);
        this.note.textContent = values.some((value) => value > 0) ? '' : this.capture ? 'no samples: the target was idle' : 'nothing was recorded in this range';
    }

    async search(text) {
        const wildcard = text ? wildcardOf(text) : '', turn = ++this.turn;
        this.heat.schedule({ hits: null });
        if (text) this.note.textContent = wildcard === null ? 'The search marks cells for plain text and *, not for other regular expressions.' : '';
        await sleep(300);
        if (!wildcard || turn !== this.turn || this.ctx.signal.aborted) return;
        try {
            const hits = (await this.cells(wildcard)).values, found = hits.filter((hit) => hit > 0).length;
            if (turn !== this.turn) return;
            this.heat.schedule({ hits });
            this.note.textContent = `${found.toLocaleString('en')} cells have stacks with ${wildcard}; their mark is larger the larger their share.`;
        } catch (error) {
            if (!this.ctx.signal.aborted) this.note.textContent = `The search cannot mark cells: ${error.message}`;
        }
    }

    showGraph() {
        const { from, until } = this.heat.data, { what, text, divisor } = this.state;
        if (this.capture) this.graph.show(`capture ${this.capture}`, [from, until], false);
        else if (this.graph.chosen()[0]) this.graph.show(`${what.service || 'all services'}, ${text}`, null, !divisor);
        else this.graph.clear(message('hint', 'Choose cells for their graph.'));
    }
}

export const heatmapView = {
    name: 'heatmap',
    title: 'Heat map',
    async open(ctx) {
        const ask = (path) => getJson(path, { signal: ctx.signal }), isOff = (problem) => (problem.status === 501 ? {} : Promise.reject(problem));
        const isAway = (problem) => (problem.status === 503 ? { captures: [] } : Promise.reject(problem)); // a gateway for history only
        const [{ captures }, { services }] = await Promise.all([ask(`${ctx.prefix}/v1/captures`).catch(isAway), ask('/v1/history/services?from=-7d').catch(isOff)]);
        if (!services && !captures.some((one) => number(one.timelineBytes))) {
            return ctx.root.append(message('hint', 'There is nothing to draw yet: take a capture, or turn history on with `sonded --history` or `sonde run --history -- COMMAND`.'));
        }
        const view = new HeatMap(ctx, captures, services);
        await view.update();
        return () => view.graph.viewer.destroy();
    },
};
