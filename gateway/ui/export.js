// SPDX-License-Identifier: Apache-2.0
// Exports of the shown profile: as a page that works offline, as pprof, and in the formats that the service renders.
//
// The offline page is one file: the modules in the order of their imports, without imports and exports; the style sheet; and what the
// gateway answered while the view was open, so that the same view opens again from it. Its policy allows no connection.
import { getBytes, isOffline, recordedAnswers, remember, status, targetLabel, TOKEN_KEY } from './api.js';
import { notify } from './menu.js';
import { compress, encode } from './pprof.js';
import { join } from './profile.js';
import { address, momentHash, ownPath, viewName } from './state.js';

const RENDERED = { flamegraph: ['SVG', '.svg'], speedscope: ['speedscope', '.speedscope.json'], firefox: ['Firefox Profiler', '.firefox.json'], md: ['Markdown', '.md'],
    collapsed: ['collapsed stacks', '.collapsed'], top: ['table', '.txt'] };
const POLICY = 'default-src \'none\'; script-src \'unsafe-inline\'; style-src \'unsafe-inline\'; img-src data:';

function saveFile(name, content, type = 'application/octet-stream') {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// What is shown as a pprof file; both sides of a difference.
function shownFile({ profile, base, type }) {
    const baseType = base ? base.types.findIndex((one) => one.type === profile.types[type].type) : 0;
    const one = base ? join(profile, base, type, baseType) : Object.assign(Object.create(Object.getPrototypeOf(profile)), profile, { defaultType: type });
    return compress(encode(one));
}

// ---- The offline page ----

async function ownFile(path) {
    const response = await fetch(location.origin + address(path), { headers: { accept: 'text/html,*/*' } });
    if (!response.ok) throw new Error(`the gateway answered ${response.status} to ${path}`);
    return response.text();
}

// The module and those it imports, each once, imported ones first.
async function collectModules(name, found = new Map()) {
    if (found.has(name)) return found;
    found.set(name, null);
    const text = await ownFile(`/ui/${name}`);
    for (const [, imported] of text.matchAll(/^import .* from '\.\/(.+)';$/gm)) await collectModules(imported, found);
    found.delete(name);
    found.set(name, text.replace(/^import .*;\n/gm, '').replace(/^export /gm, ''));
    return found;
}

function base64(bytes) {
    let text = '';
    for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    return btoa(text);
}

// Scripts may contain neither of these; in JSON, escapes mean the same.
const scriptText = (text) => text.replace(/<(?=\/script|!--|script)/gi, '\\x3c');

async function offlinePage(shown) {
    const view = viewName();
    remember(`/offline/${view}.pb`, await compress(encode(shown.profile)));
    if (shown.base) remember(`/offline/${view}-base.pb`, await compress(encode(shown.base)));
    const [page, style, modules] = await Promise.all([ownFile('/'), ownFile('/ui/style.css'), collectModules('main.js')]);
    const answers = Object.fromEntries([...recordedAnswers()].map(([path, answer]) => [path, base64(answer.bytes)]));
    const data = JSON.stringify({ path: ownPath(), hash: momentHash(), label: targetLabel(), title: shown.title, answers }).replace(/</g, '\\u003c');
    const head = `<meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${style}</style>`
        + `<script>window.SONDE_OFFLINE = ${data};\nif (!location.hash) history.replaceState(null, '', SONDE_OFFLINE.hash);</script>`
        + `<script type="module">${scriptText([...modules.values()].join('\n'))}</script></head>`;
    return page.replace(/<link .*>\n|<script .*<\/script>\n/g, '').replace('</head>', () => head);
}

// ---- Speedscope ----

// Speedscope asks for the profile by itself and cannot send a token.
async function openSpeedscope(shown, name) {
    const source = !shown.base && shown.profile.source;
    if (source?.startsWith('/v1/') && !sessionStorage.getItem(TOKEN_KEY)) {
        const url = new URL(address(source), location.href).href;
        window.open(`${address('/speedscope/index.html')}#profileURL=${encodeURIComponent(url)}&title=${encodeURIComponent(name)}`, '_blank', 'noopener');
        return;
    }
    window.open(address('/speedscope/index.html'), '_blank', 'noopener');
    saveFile(`${name}.pb.gz`, await shownFile(shown));
    notify(`this profile is only in this page: it was saved as ${name}.pb.gz, drop that file on speedscope`);
}

// The items of the menu. getProfile() returns { profile, base, type }.
export async function exportMenu(getProfile, name) {
    const item = (text, work) => ({ text, run: () => work().catch((error) => notify(error.message)) });
    const rendered = ([output, [text, extension]]) => item(text, async () => {
        const body = await shownFile(getProfile());
        saveFile(name + extension, await getBytes(`/v1/render?output=${output}`, { method: 'POST', accept: '*/*', body }));
    });
    const pprof = item('pprof', async () => saveFile(`${name}.pb.gz`, await shownFile(getProfile())));
    if (isOffline()) return [pprof];
    return [item('This page as one HTML file', async () => saveFile(`${name}.html`, await offlinePage(getProfile()), 'text/html')), pprof,
        ...Object.entries(RENDERED).map(rendered), ...(await status('/speedscope/') === 200 ? [item('Open in speedscope', () => openSpeedscope(getProfile(), name))] : [])];
}
