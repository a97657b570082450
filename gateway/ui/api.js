// SPDX-License-Identifier: Apache-2.0
// Requests to the gateway. The page uses documented paths only (/openapi.yaml). What was received is remembered as long as a view
// is open, because an exported page answers the same requests from its own copy (export.js).

import { address, targetName, targetPrefix } from './state.js';

export const TOKEN_KEY = 'sonde-token';
const MAX_RECORDED = 64 << 20;
const offlineCopy = window.SONDE_OFFLINE ?? null;
let recorded = new Map(), recordedBytes = 0, askForToken = null;

// An answer that is not a success, as a sentence that says what to do. status is 0 if there was no answer.
export class Problem extends Error {
    constructor(status, text) {
        super(text);
        this.status = status;
    }
}

export const isOffline = () => offlineCopy !== null;

export function onTokenNeeded(callback) {
    askForToken = callback;
}

export function setToken(token) {
    sessionStorage.setItem(TOKEN_KEY, token);
}

export function forgetRecorded() {
    recorded = new Map();
    recordedBytes = 0;
}

export const recordedAnswers = () => recorded;

function recordAnswer(path, type, bytes) {
    recordedBytes += bytes.length - (recorded.get(path)?.bytes.length ?? 0);
    recorded.set(path, { type, bytes });
    for (const [old, answer] of recorded) {
        if (recordedBytes <= MAX_RECORDED || old === path) break;
        recordedBytes -= answer.bytes.length;
        recorded.delete(old);
    }
}

// Remembers what a view made itself, such as the profile of a stream, for an exported page.
export const remember = (path, bytes) => recordAnswer(path, 'application/octet-stream', bytes);

function explainAnswer(status, body) {
    try {
        const json = JSON.parse(body);
        return json.message ?? json.error ?? body;
    } catch {
        return body.trim() || `the gateway answered ${status} without a text`;
    }
}

async function ask(path, { method = 'GET', accept = 'application/json', body, signal } = {}) {
    const headers = { accept }, token = offlineCopy ? null : sessionStorage.getItem(TOKEN_KEY);
    if (token) headers.authorization = `Bearer ${token}`;
    let response;
    try {
        response = await fetch(location.origin + address(path), { method, headers, body, signal, cache: 'no-store' });
    } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new Problem(0, 'the gateway does not answer: check that sonde-gateway is running; this page tries again');
    }
    if (response.ok) return response;
    const problem = new Problem(response.status, explainAnswer(response.status, await response.text()));
    if (response.status === 401) askForToken?.(problem);
    throw problem;
}

function replay(path) {
    const answer = offlineCopy.answers[path];
    if (answer === undefined) throw new Problem(404, 'this saved page does not contain that part: open it in the live page');
    return Uint8Array.from(atob(answer), (c) => c.charCodeAt(0));
}

// The answer's bytes.
export async function getBytes(path, options = {}) {
    if (offlineCopy) return replay(path);
    const response = await ask(path, { accept: 'application/octet-stream', ...options });
    const bytes = new Uint8Array(await response.arrayBuffer());
    if ((options.method ?? 'GET') === 'GET') recordAnswer(path, response.headers.get('content-type'), bytes);
    return bytes;
}

export async function getJson(path, options = {}) {
    return JSON.parse(new TextDecoder().decode(await getBytes(path, { accept: 'application/json', ...options })));
}

export async function getText(path, options = {}) {
    return new TextDecoder().decode(await getBytes(path, { accept: 'text/plain', ...options }));
}

// Sends a change. Returns its JSON answer.
export async function send(method, path, body) {
    if (offlineCopy) throw new Problem(0, 'this is a saved page: open the live page to change something');
    const text = await (await ask(path, { method, body })).text();
    return text.startsWith('{') ? JSON.parse(text) : text;
}

// Whether something exists: the status of a HEAD request, 0 without an answer.
export async function status(path) {
    if (offlineCopy) return 404;
    try {
        return (await ask(path, { method: 'HEAD' })).status;
    } catch (problem) {
        return problem.status ?? 0;
    }
}

// Calls onLine with each line of JSON until the answer ends. Rejects if it breaks off, or ends with an error's line.
export async function lines(path, { method = 'GET', signal, onLine }) {
    if (offlineCopy) throw new Problem(0, 'this is a saved page: streams are only in the live page');
    const response = await ask(path, { method, accept: 'application/x-ndjson', signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        let part;
        try {
            part = await reader.read();
        } catch (error) {
            if (error.name === 'AbortError') throw error;
            throw new Problem(0, 'the connection to the gateway broke off');
        }
        if (part.done) return;
        const complete = (rest + part.value).split('\n');
        rest = complete.pop();
        for (const line of complete) {
            if (!line) continue;
            const value = JSON.parse(line);
            if (value.code >= 400) throw new Problem(value.code, value.message);
            onLine(value);
        }
    }
}

// ---- The chosen target in words. A process that is chosen by its pid has a name, too. ----

let known = null;

export const targetLabel = () => (known?.prefix === targetPrefix() ? known.label : targetName());

// { name, pid, label }: the name is that of the process; pid is '' if the target was chosen by name.
export async function describeTarget(signal) {
    const prefix = targetPrefix(), chosen = targetName(), isPid = /^\d+$/.test(chosen);
    if (known?.prefix === prefix) return known;
    if (isOffline()) return (known = { prefix, name: chosen, pid: '', label: window.SONDE_OFFLINE.label ?? chosen });
    if (!isPid) return (known = { prefix, name: chosen, pid: '', label: chosen === '@all' ? 'all processes' : chosen });
    const { targets = [] } = await getJson('/v1/targets?all=true', { signal }).catch(() => ({})), name = targets.find((one) => one.pid === Number(chosen))?.name;
    const found = { prefix, name: name ?? '', pid: chosen, label: name ? `${name}, pid ${chosen}` : `pid ${chosen}` };
    if (name) known = found;
    return found;
}
