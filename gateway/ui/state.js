// SPDX-License-Identifier: Apache-2.0
// The state of the page is in its URL, so that a link is a finding: the path has the target ("/t/redis/"), the fragment the view and
// its settings ("#live?q=malloc&i=1"). A proxy may serve all of it below a path of its own.

const navigationListeners = new Set();
const base = window.SONDE_OFFLINE ? '/' : new URL('..', import.meta.url).pathname;
let current = readHash(), moment = {};

// The address of a path of the gateway, such as "/v1/info", as this browser reaches it.
export const address = (path) => (path[0] === '/' ? base + path.slice(1) : path);

export const ownPath = () => window.SONDE_OFFLINE?.path ?? location.pathname.slice(base.length - 1);

function readHash() {
    const [view, query] = location.hash.slice(1).split(/\?(.*)/s);
    return { view, params: new URLSearchParams(query ?? '') };
}

// "/t/redis" or "": the prefix of the paths that ask about the chosen target.
export function targetPrefix() {
    const match = ownPath().match(/^\/t\/[^/]+/);
    return match ? match[0] : '';
}

export function targetName() {
    try {
        return decodeURIComponent(targetPrefix().slice(3));
    } catch {
        return targetPrefix().slice(3);
    }
}

export const viewName = () => current.view;
export const getState = (key, fallback = '') => current.params.get(key) ?? fallback;
export const isOn = (key) => current.params.get(key) === '1';

function fragment(view, params) {
    const query = params.toString();
    return `#${view}${query ? `?${query}` : ''}`;
}

// Changes settings; null and "" remove one. A step can be undone with the browser's Back.
export function setState(changes, step = false) {
    for (const [key, value] of Object.entries(changes)) {
        if (value === null || value === undefined || value === '' || value === false) current.params.delete(key);
        else current.params.set(key, value === true ? '1' : value);
    }
    try {
        history[step ? 'pushState' : 'replaceState'](null, '', fragment(current.view, current.params));
    } catch {
        // A browser limits how often this may be called; the next change writes all of them.
    }
}

// What a setting like "the last hour" means now. It is not in the URL, but a saved page needs it.
export function setMoment(values) {
    moment = values;
}

export const momentHash = () => fragment(current.view, new URLSearchParams({ ...Object.fromEntries(current.params), ...moment }));

// The fragment of another view.
export const linkTo = (view, params = {}) => fragment(view, new URLSearchParams(params));

export function goTo(view, params = {}) {
    location.hash = linkTo(view, params);
}

// Calls back after the fragment was changed by a link, by Back or by goTo(), not by setState().
export function onNavigate(callback) {
    navigationListeners.add(callback);
}

window.addEventListener('popstate', () => {
    const before = current;
    current = readHash();
    for (const listener of navigationListeners) listener(before.view !== current.view);
});
