// SPDX-License-Identifier: Apache-2.0
// A heat map of time: of a saved capture with a column per second and rows of 20 ms, or of history with rows of 10 s. A cell's colour is
// its value. Ranges of cells, in the order of time, have their graph below. Cells whose stacks match the search get a mark.
import { getJson } from './api.js';
import { captureText } from './captures.js';
import { choice, fitCanvas, formatSeconds, formatTime, h, message, number, percent } from './dom.js';
import { historyQuery, historyState, MAX_STEPS, RangeGraph, RANGES, RECORDED } from './history.js';
import { showError } from './load.js';
import { getState, setState } from './state.js';
import { hatch, rangeText, rateText, TimeCanvas } from './strip.js';

// Up to which length of history: the seconds of a cell, and the rows.
const HEAT_LAYOUTS = [[7200, 10, 12], [43200, 10, 30], [172800, 10, 60], [691200, 10, 180], [Infinity, 60, 180]], HEAT_HEIGHT = 252, HEAT_AXIS = 16;
const HEAT_COLOURS = { light: [[255, 244, 230], [253, 187, 132], [215, 48, 31], [90, 0, 20]], dark: [[38, 42, 51], [122, 40, 90], [228, 90, 49], [255, 238, 170]] };
const heatSeconds = (from, until) => `${from.toFixed(2)} s – ${until.toFixed(2)} s`;

// The wildcard that finds the functions of a search: "*text*". Null for other regular expressions.
function wildcardOf(text) {
    let isPlain = true;
    const body = text.replace(/^\^/, '').replace(/([^\\])\$$/, '$1').replace(/\.\*|\\(.)|[+?()[\]{}|^$]/g, (all, escaped) => {
        isPlain &&= Boolean(escaped) || all === '.*';
        return escaped ?? '*';
    });
    return isPlain ? `${text.startsWith('^') ? '' : '*'}${body}${/[^\\]\$$/.test(text) ? '' : '*'}`.replace(/\*+/g, '*') : null;
}

// data: { from, until, step, rows, unit, isCapture, values }; values of NaN are missing. hits: the values of stacks that match, or null.
class HeatCanvas extends TimeCanvas {
    timeOf(x, y) {
        const { from, step, rows, values } = this.data, row = Math.min(Math.max(Math.floor(y / this.cellHeight), 0), rows - 1);
        const cell = Math.floor(Math.max(x, 0) / this.cellWidth) * rows + row;
        return from + (Math.min(cell, values.length - 1) + 0.5) * step;
    }

    moves() {
        const { step, rows } = this.data;
        return { ArrowUp: -step, ArrowDown: step, ArrowLeft: -step * rows, ArrowRight: step * rows, Home: -Infinity, End: Infinity };
    }

    cellOf(time) {
        return Math.round((time - this.data.from) / this.data.step - 0.25);
    }

    rangeText(from, until) {
        return (this.data.isCapture ? heatSeconds : rangeText)(from, until);
    }

    describe(time) {
        const { from, step, unit, values, isCapture } = this.data, cell = this.cellOf(time), value = values[cell], begin = from + cell * step;
        const hit = this.hits?.[cell] > 0 ? ` · ${percent(this.hits[cell], value)} of it matches the search` : '';
        return `${isCapture ? heatSeconds(begin, begin + step) : formatTime(begin, step < 60)}: ${Number.isNaN(value) ? 'no data' : rateText(value, unit)}${hit}`;
    }

    // A point per cell; the browser enlarges the picture.
    paint(isDark) {
        const { values, rows } = this.data, columns = Math.ceil(values.length / rows), picture = new OffscreenCanvas(columns, rows), context = picture.getContext('2d');
        const image = context.createImageData(columns, rows), stops = HEAT_COLOURS[isDark ? 'dark' : 'light'];
        values.forEach((value, i) => {
            const at = Math.min(value / this.peak, 1) * 3, low = Math.min(Math.floor(at), 2), to = 4 * ((i % rows) * columns + Math.floor(i / rows));
            for (let c = 0; c < 3; c++) image.data[to + c] = stops[low]?.[c] + (stops[low + 1]?.[c] - stops[low]?.[c]) * (at - low);
            image.data[to + 3] = Number.isNaN(value) ? 0 : 255;
        });
        context.putImageData(image, 0, 0);
        return picture;
    }

    // The largest values are few, and would leave no colours to the others.
    set(data) {
        const sorted = data.values.filter((value) => value > 0).sort();
        this.peak = sorted[Math.floor(sorted.length * 0.995)] ?? 1;
        this.hits = null;
        super.set(data);
    }

    draw(colours) {
        const { rows, values } = this.data, columns = Math.ceil(values.length / rows), isDark = parseInt(colours.paper.slice(1, 3), 16) < 128;
        this.cellWidth = Math.min(Math.max(Math.floor(this.element.clientWidth / columns), 3), 24);
        this.cellHeight = Math.min(Math.max(Math.floor(HEAT_HEIGHT / rows), 2), 18);
        const width = columns * this.cellWidth, height = rows * this.cellHeight, context = fitCanvas(this.canvas, Math.max(width, 60), height + HEAT_AXIS);
        context.clearRect(0, 0, width, height + HEAT_AXIS);
        hatch(context, 0, 0, width, height, colours.line);
        context.imageSmoothingEnabled = false;
        context.drawImage(this.paint(isDark), 0, 0, width, height);
        this.drawAxis(context, colours, columns, height);
        this.hits?.forEach((hit, cell) => hit > 0 && this.drawHit(context, colours, cell, Math.sqrt(hit / values[cell])));
        for (const [range, side] of this.chosen()) this.drawCells(context, colours, range, side);
        if (this.pointed === null) return;
        const cell = this.cellOf(this.pointed);
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(Math.floor(cell / rows) * this.cellWidth - 1, (cell % rows) * this.cellHeight - 1, this.cellWidth + 2, this.cellHeight + 2);
    }

    drawAxis(context, colours, columns, height) {
        const { from, step, rows, isCapture } = this.data, every = [1, 2, 5, 6, 10, 20, 30, 60, 120, 300, 600].find((one) => one * this.cellWidth >= 74) ?? 1200;
        context.fillStyle = colours.faint;
        context.font = '11px system-ui, sans-serif';
        for (let column = 0; column < columns; column += every) {
            const time = from + column * rows * step, text = isCapture ? `${Math.round(time)} s` : formatTime(time).replace(/^\d+-/, '');
            context.fillRect(column * this.cellWidth, height, 1, 5);
            if ((columns - column) * this.cellWidth > 40) context.fillText(text, column * this.cellWidth + 3, height + 12);
        }
    }

    drawHit(context, colours, cell, size) {
        const x = (Math.floor(cell / this.data.rows) + 0.5) * this.cellWidth, y = (cell % this.data.rows + 0.5) * this.cellHeight;
        for (const [colour, scale] of [[colours.paper, 0.85], [colours.ink, 0.5]]) {
            const width = Math.max(scale * size * this.cellWidth, 1), height = Math.max(scale * size * this.cellHeight, 1);
            context.fillStyle = colour;
            context.fillRect(x - width / 2, y - height / 2, width, height);
        }
    }

    drawCells(context, colours, [from, until], side) {
        const { rows } = this.data, begin = this.cellOf(from), end = this.cellOf(until);
        context.fillStyle = context.strokeStyle = side ? colours.second : colours.ink;
        for (let at = begin; at < end;) {
            const column = Math.floor(at / rows), next = Math.min((column + 1) * rows, end), x = column * this.cellWidth, y = (at % rows) * this.cellHeight, height = (next - at) * this.cellHeight;
            if (side) hatch(context, x, y, this.cellWidth, height, colours.second);
            context.globalAlpha = 0.3;
            context.fillRect(x, y, this.cellWidth, height);
            context.globalAlpha = 1;
            context.lineWidth = 1.5;
            if (at === begin || next === end) context.strokeRect(x + 0.5, y + 0.5, this.cellWidth - 1, height - 1);
            at = next;
        }
    }
}

class HeatMap {
    constructor(ctx, captures, services) {
        Object.assign(this, { ctx, captures, errors: h('div'), note: h('p', { class: 'muted', role: 'status' }), controls: h('div', { class: 'bar' }), legend: h('p', { class: 'muted heat-legend' }), services });
        ctx.root.append(this.controls, this.errors);
        this.heat = new HeatCanvas(ctx.root, { label: 'heat map', second: 'Baseline', onselect: (from, until, isBase) => this.select(from, until, isBase),
            hint: 'Drag over cells for their graph, Ctrl-drag for a baseline to compare with. Or use the arrows, Shift, Enter and Ctrl+Enter.' });
        ctx.root.append(this.legend, this.note);
        ctx.rangeText = (from, until) => this.heat.rangeText(from, until);
        this.graph = new RangeGraph(ctx, (from, until) => this.profilePath(from, until), { name: 'heatmap', empty: 'no samples in these cells' });
        this.graph.viewer.onSearch((text) => this.search(text));
    }

    profilePath(from, until) {
        if (this.capture) return `/v1/captures/${this.capture}.pb.gz?from=${from.toFixed(2)}&until=${until.toFixed(2)}`;
        return `/v1/history/profile?${historyQuery({ ...this.state.select, from, until, output: 'proto' })}`;
    }

    async update(changes = {}) {
        setState(changes, true);
        const id = getState('capture'), withBins = this.captures.filter((one) => number(one.timelineBytes));
        this.capture = id || (this.services || getState('sv') ? '' : withBins[0]?.id ?? '');
        this.state = historyState();
        this.drawControls(withBins);
        showError(this.errors, null);
        try {
            this.heat.set(this.capture ? await this.captureCells() : await this.historyCells());
            this.drawLegend();
            this.heat.clear();
            if (getState('ru')) this.heat.select(number(getState('rf')), number(getState('ru')));
            if (getState('bu')) this.heat.selectBase(number(getState('bf')), number(getState('bu')));
            this.showGraph();
            this.search(getState('q'));
        } catch (error) {
            this.graph.clear();
            showError(this.errors, error);
        }
    }

    drawControls(withBins) {
        const none = { rf: null, ru: null, bf: null, bu: null }, { select } = this.state, chosen = this.capture ? `c${this.capture}` : `h${select.service}`;
        const option = (value, text) => h('option', { value, selected: value === chosen }, text), events = this.services?.find((one) => one.name === select.service)?.events ?? Object.keys(RECORDED);
        const source = h('select', { 'aria-label': 'what is shown', onchange: () => this.update({ capture: null, sv: null, ...none, [source.value[0] === 'c' ? 'capture' : 'sv']: source.value.slice(1) }) },
            withBins.map((one) => option(`c${one.id}`, `capture ${captureText(one)}`)), this.services ? [option('h', 'history of all services'), this.services.map((one) => option(`h${one.name}`, `history of ${one.name}`))] : null);
        this.controls.replaceChildren(source, ...(this.capture ? [] : [choice('what was recorded', events.filter((event) => RECORDED[event]).map((event) => [event, RECORDED[event][0]]), select.event, (ev) => this.update({ ev })),
            choice('range', RANGES, getState('ra', '3600'), (ra) => this.update({ ra, ...none })), select.selector && h('code', {}, select.selector)].filter(Boolean)));
    }

    async captureCells(wildcard = '') {
        const { binMs, value } = await getJson(`/v1/captures/${this.capture}/timeline${wildcard && `?function=${encodeURIComponent(wildcard)}`}`, { signal: this.ctx.signal });
        return { from: 0, until: value.length * binMs / 1000, step: binMs / 1000, rows: Math.round(1000 / binMs), unit: 'cores', isCapture: true, values: Float64Array.from(value, (one) => number(one) / binMs / 1e6) };
    }

    // A request has a bounded number of steps, so long ranges take several.
    async historyCells(wildcard = '') {
        const { from, until, select } = this.state, [, step, rows] = HEAT_LAYOUTS.find(([length]) => until - from <= length), column = step * rows, begin = Math.floor(from / column) * column;
        const [, unit, divisor] = RECORDED[select.event] ?? RECORDED['on-cpu'], values = new Float64Array(Math.ceil((until - begin) / step)).fill(wildcard ? 0 : NaN);
        for (let at = begin; at < until; at += MAX_STEPS * step) {
            this.note.textContent = `loading ${formatTime(at)}…`;
            const query = historyQuery({ ...select, from: at, until: Math.min(at + MAX_STEPS * step, until), step, function: wildcard });
            const { series: [one] } = await getJson(`/v1/history/series?${query}`, { signal: this.ctx.signal });
            one?.timeUnixS.forEach((time, i) => { values[(number(time) - begin) / step] = number(one.value[i]) / (divisor ? step * divisor : 1); });
        }
        this.note.textContent = '';
        return { from: begin, until: begin + values.length * step, step, rows, unit, isCapture: false, values };
    }

    drawLegend() {
        const { step, rows, unit } = this.heat.data, isEmpty = !this.heat.data.values.some((value) => value > 0);
        this.legend.replaceChildren(rateText(0, unit), h('i', { class: 'heat-scale', 'aria-hidden': 'true' }), `${rateText(this.heat.peak, unit)} or more`, h('span', {}, `a cell: ${step < 1 ? `${step * 1000} ms` : formatSeconds(step)}, a column: ${formatSeconds(step * rows)}, hatched: no data`));
        if (isEmpty) this.errors.replaceChildren(message('hint', this.capture ? 'no samples: the target was idle' : 'nothing was recorded in this range'));
    }

    async search(text) {
        const wildcard = text ? wildcardOf(text) : '', turn = this.turn = (this.turn ?? 0) + 1;
        this.heat.schedule({ hits: null });
        this.note.textContent = wildcard === null ? 'Cells are marked for plain text and *, not for other regular expressions.' : '';
        await new Promise((resolve) => { setTimeout(resolve, 300); });
        if (!wildcard || turn !== this.turn || !this.heat.data) return;
        try {
            const hits = (await (this.capture ? this.captureCells(wildcard) : this.historyCells(wildcard))).values, found = hits.filter((hit) => hit > 0).length;
            if (turn !== this.turn) return;
            this.heat.schedule({ hits });
            this.note.textContent = `${found.toLocaleString('en')} cells have stacks with ${wildcard}; the larger the mark, the larger its share.`;
        } catch (error) {
            if (!this.ctx.signal.aborted) this.note.textContent = `The search cannot be marked: ${error.message}`;
        }
    }

    select(from, until, isBase) {
        setState(from === null ? { rf: null, ru: null, bf: null, bu: null } : isBase ? { bf: from, bu: until } : { rf: from, ru: until }, true);
        this.showGraph();
    }

    showGraph() {
        const { from, until, isCapture } = this.heat.data, chosen = (key) => (getState(`${key}u`) ? [number(getState(`${key}f`)), number(getState(`${key}u`))] : null), range = chosen('r'), base = chosen('b');
        const name = isCapture ? `capture ${this.capture}` : `${this.state.select.service || 'all services'}, ${RECORDED[this.state.select.event]?.[0]}`, text = (one) => this.heat.rangeText(...one);
        if (range || base || isCapture) this.graph.show(range ?? [from, until], base, `${name}, ${text(range ?? [from, until])}${base ? ` against ${text(base)}` : ''}`, this.state.select.event === 'mem-inuse');
        else this.graph.clear(message('hint', 'Choose cells for their graph.'));
    }
}

export const heatmapView = {
    name: 'heatmap',
    title: 'Heat map',
    needsTarget: false,
    async open(ctx) {
        const ask = (path) => getJson(path, { signal: ctx.signal }), services = ask('/v1/history/services?from=-7d').then((list) => list.services, (problem) => (problem.status === 501 ? null : Promise.reject(problem)));
        const [{ captures }, known] = await Promise.all([ask(`${ctx.prefix}/v1/captures`), services]);
        if (!known && !captures.some((one) => number(one.timelineBytes))) return ctx.root.append(message('hint', 'There is nothing to draw yet: take a capture, or turn history on with `sonded --history` or `sonde run --history`.'));
        const view = new HeatMap(ctx, captures, known);
        await view.update();
        return () => view.graph.viewer.destroy();
    },
};
