// SPDX-License-Identifier: Apache-2.0
// The frame of the page: which view is open, the target, the theme, the token, and dropped files.
import { describeTarget, forgetRecorded, isOffline, onTokenNeeded, Problem, setToken, targetLabel, TOKEN_KEY } from './api.js';
import { capturesView, openDroppedFile } from './captures.js';
import { compareView } from './compare.js';
import { button, h, message } from './dom.js';
import { heapView } from './heap.js';
import { heatmapView } from './heatmap.js';
import { historyView } from './history.js';
import { liveView } from './live.js';
import { closeMenu } from './menu.js';
import { startView } from './start.js';
import { address, linkTo, onNavigate, targetName, targetPrefix, viewName } from './state.js';
import { threadsView } from './threads.js';
import { showKeys } from './viewer.js';

const VIEWS = [startView, liveView, capturesView, historyView, heatmapView, heapView, threadsView, compareView];
const RETRY_MS = 2000, THEMES = ['auto', 'light', 'dark'], THEME_KEY = 'sonde-theme';

let closing = null;

// ---- Views ----

function chosenView() {
    return VIEWS.find((view) => view.name === viewName()) ?? (targetPrefix() ? liveView : startView);
}

async function openView() {
    const view = chosenView(), root = document.getElementById('view'), abort = new AbortController();
    closing?.();
    closeMenu();
    forgetRecorded();
    root.replaceChildren();
    drawNavigation(view);
    let close = null, isClosed = false;
    closing = () => {
        isClosed = true;
        abort.abort();
        close?.();
    };
    try {
        const { name, pid, label } = await describeTarget(abort.signal);
        if (isClosed) return;
        drawNavigation(view);
        close = await view.open({ root, signal: abort.signal, prefix: targetPrefix(), target: targetName(), name, pid, label });
        if (isClosed) close?.();
    } catch (error) {
        if (!isClosed) showFailure(root, error);
    }
}

// Problems that pass by themselves, such as a service that restarts, are tried again.
function showFailure(root, error) {
    const passes = error instanceof Problem && [0, 502, 503, 504].includes(error.status) && !isOffline();
    if (!(error instanceof Problem)) console.error(error);
    if (error.status === 401) return; // the form for the token is open
    root.replaceChildren(message('error', error.message, ' ', button('Try again', openView)));
    if (!passes) return;
    const timer = setTimeout(openView, RETRY_MS);
    closing = () => clearTimeout(timer);
}

function drawNavigation(current) {
    const nav = document.getElementById('views'), target = document.getElementById('target');
    nav.replaceChildren(...VIEWS.filter((view) => view !== startView && (!view.needsTarget || targetPrefix())).map((view) => h('a', {
        href: linkTo(view.name), 'aria-current': view === current ? 'page' : null }, view.title)));
    target.replaceChildren(targetPrefix() ? h('span', { class: 'chip' }, h('b', {}, targetLabel()), ' ', h('a', { href: address('/'), title: 'choose another target' }, 'change'))
        : h('span', { class: 'muted' }, 'no target chosen'));
    document.title = `${targetPrefix() ? `${targetLabel()} · ` : ''}${current.title} · Sonde`;
}

// ---- Theme, token, files ----

function storedTheme() {
    try {
        return localStorage.getItem(THEME_KEY) ?? 'auto';
    } catch {
        return 'auto';
    }
}

function applyTheme(theme) {
    document.documentElement.dataset.theme = theme;
    document.getElementById('theme').textContent = { auto: '◐', light: '☀', dark: '☾' }[theme];
    document.getElementById('theme').setAttribute('aria-label', `theme: ${theme}`);
    document.dispatchEvent(new Event('sonde-theme'));
}

function nextTheme() {
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    try {
        localStorage.setItem(THEME_KEY, theme);
    } catch {
        // The theme then lasts until the page is loaded again.
    }
    applyTheme(theme);
}

function askToken() {
    const isRefused = sessionStorage.getItem(TOKEN_KEY), text = isRefused ? 'This token was not accepted.' : 'Reading profiles here needs a token.';
    const place = document.getElementById('token'), field = h('input', { type: 'password', autocomplete: 'off', 'aria-label': 'token', placeholder: 'token' });
    const submit = (event) => {
        event.preventDefault();
        setToken(field.value.trim());
        place.replaceChildren();
        openView();
    };
    if (place.firstChild) return;
    place.replaceChildren(h('form', { class: 'panel bar', onsubmit: submit }, h('b', {}, text), field, h('button', {}, 'Use this token'),
        h('span', { class: 'muted' }, 'It is a line of the token file of sonded. The browser forgets it when this tab is closed.')));
    field.focus();
}

function acceptFiles() {
    const show = (on) => document.body.classList.toggle('dropping', on);
    document.addEventListener('dragover', (event) => {
        if (!event.dataTransfer.types.includes('Files')) return;
        event.preventDefault();
        show(true);
    });
    document.addEventListener('dragleave', (event) => event.relatedTarget === null && show(false));
    document.addEventListener('drop', (event) => {
        show(false);
        const file = event.dataTransfer.files[0];
        if (!file || event.defaultPrevented) return;
        event.preventDefault();
        openDroppedFile(file);
    });
}

// ---- Start ----

function start() {
    if (window.SONDE_OFFLINE) document.body.classList.add('offline');
    document.getElementById('theme').addEventListener('click', nextTheme);
    document.getElementById('keys').addEventListener('click', showKeys);
    document.addEventListener('keydown', (event) => event.key === 'd' && !event.ctrlKey && !event.metaKey && !event.target.closest('input, select, textarea') && nextTheme());
    document.querySelector('.brand').href = address('/');
    applyTheme(storedTheme());
    onTokenNeeded(askToken);
    onNavigate(openView);
    acceptFiles();
    openView();
}

start();
