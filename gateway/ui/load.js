// SPDX-License-Identifier: Apache-2.0
// What views share that have forms, ask again and again, or load profiles.
import { getBytes, isOffline, Problem } from './api.js';
import { h, message } from './dom.js';
import { decode } from './pprof.js';

export const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// Shows an error as a sentence, null removes it. One that stays the same is not announced again.
export function showError(place, error) {
    const text = error && error.status !== 401 ? error.message : ''; // main.js asks for a token
    if (error && error.constructor !== Error && !(error instanceof Problem)) console.error(error);
    if (place.dataset.text !== text) place.replaceChildren(...(text ? [message('error', text)] : []));
    place.dataset.text = text;
}

// Does something that may fail. Its error is shown until the next success.
export async function attempt(place, signal, work) {
    try {
        await work();
        showError(place, null);
    } catch (error) {
        if (!signal.aborted && error.name !== 'AbortError') showError(place, error);
    }
}

// Calls work() now and every ms until the view closes, but not while nobody sees the page.
export async function repeat(place, signal, ms, work) {
    for (; !signal.aborted; await sleep(ms)) {
        if (!document.hidden || isOffline()) await attempt(place, signal, work);
        if (isOffline()) return;
    }
}

// The profile of a pprof file. `source` is its path, or the name of a file of the user.
export const readProfile = async (bytes, source) => Object.assign(await decode(bytes), { source });

export const loadProfile = async (path, signal) => readProfile(await getBytes(path, { signal }), path);

// ---- Forms ----

export const queryText = (values) => new URLSearchParams(values.filter(([, value]) => value)).toString();

export const input = (name, label, properties, unit = '') => h('label', {}, label, h('input', { name, ...properties }), unit);

export const numberInput = (name, label, value, min, max, unit) => input(name, label, { type: 'number', class: 'short', value, min, max }, unit);

export const select = (name, label, options, value, onchange) => h('select', { name, 'aria-label': label, onchange },
    options.map(([key, text]) => h('option', { value: key, selected: key === value }, text)));

// Calls onsubmit with the query of the fields that are not empty.
export const form = (text, onsubmit, ...fields) => h('form', { class: 'bar', onsubmit: (event) => {
    event.preventDefault();
    onsubmit(queryText([...new FormData(event.target)]));
} }, fields, h('button', { class: 'primary' }, text));

// Shows a bar while something takes some seconds. Returns its result.
export async function withProgress(place, seconds, work) {
    const bar = h('progress', { max: seconds, value: 0, 'aria-label': 'progress' }), began = Date.now();
    const text = h('span', { role: 'status' }), timer = setInterval(() => {
        bar.value = (Date.now() - began) / 1000;
        text.textContent = bar.value < seconds ? `${Math.round(bar.value)} s of ${seconds}` : 'reading the answer';
    }, 500);
    place.replaceChildren(bar, text);
    return work.finally(() => {
        clearInterval(timer);
        place.replaceChildren();
    });
}
