// SPDX-License-Identifier: Apache-2.0
// Elements and texts. Names of functions, threads and targets come from the profiled process: they only ever become text nodes and
// attribute values, never markup.

// Creates an element. Properties that begin with "on" are listeners, booleans are set or left out, others are attributes.
export function h(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(properties ?? {})) {
        if (typeof value === 'function') element.addEventListener(key.slice(2), value);
        else if (value === true) element.setAttribute(key, '');
        else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}

// A sentence for errors and hints. Sentences of the service name commands in backquotes; those become <code>.
export function sentence(text) {
    return String(text).split('`').map((part, i) => (i % 2 ? h('code', {}, part) : part));
}

export function message(kind, text, ...more) {
    return h('p', { class: `message ${kind}`, role: kind === 'error' ? 'alert' : 'status' }, sentence(text), more);
}

const UNITS = {
    nanoseconds: [1000, 'ns', 'µs', 'ms', 's'],
    bytes: [1024, 'B', 'KiB', 'MiB', 'GiB', 'TiB'],
};

// "1.25 s", "3.00 MiB", "1,234 samples"
export function formatValue(value, unit) {
    const row = UNITS[unit];
    if (!row) return `${Math.round(value).toLocaleString('en')}${unit && unit !== 'count' ? ` ${unit}` : ''}`;
    let size = Math.abs(value), i = 1;
    for (; i + 1 < row.length && size >= row[0]; i++) size /= row[0];
    return `${value < 0 ? '−' : ''}${size.toFixed(i > 1 ? 2 : 0)} ${row[i]}`;
}

export function formatChange(value, unit) {
    return (value > 0 ? '+' : '') + formatValue(value, unit);
}

export function percent(value, whole) {
    const share = whole ? 100 * value / whole : 0;
    return `${Math.abs(share) >= 99.995 ? share.toFixed(0) : share.toFixed(Math.abs(share) < 10 ? 2 : 1)} %`;
}

export function formatSeconds(seconds) {
    if (seconds < 120) return `${seconds < 10 && seconds % 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
    if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
    return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}

// Local time, with the date unless it is today.
export function formatTime(unixSeconds, fine = false, isDated = false) {
    const date = new Date(unixSeconds * 1000), today = !isDated && date.toDateString() === new Date().toDateString();
    const pad = (n) => String(n).padStart(2, '0');
    const day = today ? '' : `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} `;
    return `${day}${pad(date.getHours())}:${pad(date.getMinutes())}${fine ? `:${pad(date.getSeconds())}` : ''}`;
}

// 64-bit numbers are strings in JSON.
export const number = (value) => Number(value ?? 0);

export function button(text, onclick, properties = {}) {
    return h('button', { type: 'button', onclick, ...properties }, text);
}

// A group of buttons of which one is pressed. Choices are [value, text, hint].
export function choice(label, choices, value, onchoose) {
    const group = h('span', { class: 'choice', role: 'group', 'aria-label': label });
    const show = (chosen) => group.replaceChildren(...choices.map(([key, text, hint]) => button(text, () => {
        show(key);
        onchoose(key);
    }, { title: hint, 'aria-pressed': String(key === chosen) })));
    show(value);
    return group;
}

// Draws crisp lines on screens of any density. Returns the context, in CSS pixels.
export function fitCanvas(canvas, width, height) {
    const density = window.devicePixelRatio || 1, w = Math.round(width * density), ht = Math.round(height * density);
    if (canvas.width !== w || canvas.height !== ht) {
        canvas.width = w;
        canvas.height = ht;
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext('2d');
    context.setTransform(density, 0, 0, density, 0, 0);
    return context;
}

// "a, b, and 3 more"
export const andMore = (texts, limit) => texts.slice(0, limit).join(', ') + (texts.length > limit ? `, and ${texts.length - limit} more` : '');

// Bars from { from, to } in 0..1 of the width, `top` high.
export function drawBars(canvas, [width, height], bars, top) {
    const context = fitCanvas(canvas, width, height), { accent, line } = themeColours();
    context.clearRect(0, 0, width, height);
    context.fillStyle = line;
    context.fillRect(0, height - 1, width, 1);
    context.fillStyle = accent;
    for (const { from, to, value } of bars) context.fillRect(from * width, height, Math.max(1, (to - from) * width - (to - from > 0.015 ? 1 : 0)), -Math.ceil(value / top * height));
}

// The colours of the theme, as the style sheet defines them.
export function themeColours() {
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(`--${name}`).trim();
    return { paper: get('paper'), ink: get('ink'), faint: get('faint'), line: get('line'), accent: get('accent'), panel: get('panel'), second: get('second') };
}
