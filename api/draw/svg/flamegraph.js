// SPDX-License-Identifier: Apache-2.0
// The script of Sonde's pictures. It parses the static drawing once and redraws it to the width of the window. Names only go
// into text nodes. The URL's fragment has the state: s search, c ignore case, z zoomed frame, i inverted, f flipped, t theme.
(function () {
    'use strict';
    const svg = document.currentScript.closest('svg'), find = (what) => svg.querySelector(what);
    const frames = find('.frames'), bar = find('.bar'), box = find('input'), over = find('.over'), hint = find('.hint');
    const unit = svg.dataset.unit, ROW = 18, CHAR = 7.23, SIDE = 12, reading = ['s', 'c', 'z', 'i', 'f', 't'];
    const make = (tag, parent, attributes, text) => {
        const el = document.createElementNS(svg.namespaceURI, tag);
        for (const key in attributes) el.setAttribute(key, attributes[key]);
        if (text) el.textContent = text;
        return parent.appendChild(el);
    };
    const units = { nanoseconds: [1000, 'ns', 'µs', 'ms', 's'], bytes: [1024, 'B', 'KiB', 'MiB', 'GiB', 'TiB'] }[unit];
    const value = (v) => {
        if (!units) return v.toLocaleString('en') + ' ' + svg.dataset.type;
        let i = 1;
        for (; i + 1 < units.length && v >= units[0]; i++) v /= units[0];
        return v.toFixed(i > 1 ? 2 : 0) + ' ' + units[i];
    };
    const percent = (v, of) => (of ? 100 * v / of : 0).toFixed(2) + ' %';
    // Parses the static drawing, which is in depth-first order. The row of a frame is its depth; path has its callers.
    function parse() {
        const path = [], list = [];
        let floor = null;
        for (const el of svg.querySelectorAll(frames ? '.frames path' : '.node')) {
            const y = frames ? Number(el.getAttribute('d').split(/[ h]/)[1]) : 0, v = el.dataset.v.split(' ').map(Number);
            floor = floor ?? y;
            const depth = Math.round((floor - y) / ROW), name = el.querySelector('title').textContent.replace(/ \([^()]*%\)$/, '');
            const node = { name, short: el.dataset.s ?? name, cls: el.getAttribute('class'), total: v[0], self: v[1] || 0, more: el.dataset.n, base: el.dataset.b,
                depth, up: depth ? path[depth - 1] : null, kids: [], id: list.length, el };
            path[depth] = node;
            if (node.up) node.up.kids.push(node);
            list.push(node);
            el.querySelector('title').remove(); // replaced by our tooltip
            el.node = node;
        }
        return list;
    }
    // The inverted tree: the leaves are below the root, and below each frame are its callers.
    function invert(list) {
        const child = (at, n) => {
            const key = n.cls + n.name, is = at.by.get(key) ||
                { name: n.name, short: n.short, cls: n.cls, total: 0, self: 0, depth: at.depth + 1, up: at, kids: [], by: new Map() };
            if (!at.by.has(key)) at.kids.push(is);
            at.by.set(key, is);
            return is;
        };
        const root = { ...list[0], self: 0, kids: [], by: new Map() }, all = [], stack = [root];
        for (const leaf of list) for (let at = root, n = leaf; leaf.self && n.up; n = n.up) {
            at = child(at, n);
            at.total += leaf.self;
            if (n === leaf) at.self += leaf.self;
        }
        while (stack.length) {
            const at = stack.pop();
            at.id = all.push(at) - 1;
            stack.push(...at.kids.sort((a, b) => b.total - a.total).slice().reverse());
        }
        return all;
    }
    const forward = parse();
    let state = new URLSearchParams(), backward = null, list = forward, zoomed = null, current = null, matches = [];
    const on = (key) => state.get(key) === '1', set = (key, text) => text ? state.set(key, text) : state.delete(key);
    const dark = () => state.get('t') ? state.get('t') === 'd' : matchMedia('(prefers-color-scheme: dark)').matches;
    function load() {
        state = new URLSearchParams(location.hash.slice(1));
        if (!state.has('s')) set('s', new URLSearchParams(location.search).get('s'));
        apply();
    }
    function save(step) {
        if (document.documentElement !== svg) return; // embedded in a page: do not change its URL
        const params = new URLSearchParams();
        for (const key of reading) if (state.get(key)) params.set(key, state.get(key));
        try { history[step ? 'pushState' : 'replaceState'](null, '', '#' + params); } catch { location.hash = params; }
    }
    function search() {
        const term = state.get('s') || '', flags = on('c') ? 'i' : '';
        let regex = null, sum = 0;
        try { regex = term && new RegExp(term, flags); } catch { regex = new RegExp(term.replace(/[^\w\s]/g, '\\$&'), flags); }
        matches = regex ? list.filter((n) => regex.test(n.name) || regex.test(n.short)) : [];
        const hits = new Set(matches);
        for (const n of list) { // callers come first; frames below a match are counted already
            n.inside = !!n.up && (n.up.inside || hits.has(n.up));
            if (hits.has(n) && !n.inside) sum += n.total;
        }
        find('.count').textContent = regex ? (frames && list[0] ? percent(sum, list[0].total) : matches.length) + ' matched' : '';
        return hits;
    }
    // Places the frames: the zoomed frame and its callers fill the width, and its subtree is below.
    function place(width) {
        const drawn = [], stack = [[zoomed, SIDE, width]];
        for (let n = zoomed.up; n; n = n.up) drawn.push([n, SIDE, width, ' up']);
        while (stack.length) {
            const item = stack.pop();
            let x = (drawn.push(item), item[1]);
            for (const kid of item[0].kids) {
                const w = zoomed.total ? kid.total / zoomed.total * width : 0;
                if (w > 0.15) stack.push([kid, x, w]);
                x += w;
            }
        }
        return drawn;
    }
    function draw(hits, top) {
        const drawn = place(svg.clientWidth - 2 * SIDE), deepest = Math.max(...new Set(drawn.map((item) => item[0].depth)));
        const down = on('i') !== on('f'), part = document.createDocumentFragment();
        for (const n of list) n.el = null;
        for (const [n, x, w, up] of drawn) {
            const y = (down ? n.depth : deepest - n.depth) * ROW + top, fit = Math.floor((w - 6) / CHAR);
            n.el = make('g', part, { class: 'f' + (up || '') + (hits.has(n) ? ' hit' : '') + (n === current ? ' cur' : '') });
            Object.assign(n, { width: w }).el.node = n;
            make('path', n.el, { class: n.cls, d: `M${x} ${y}h${Math.max(0.3, w - 0.6)}v${ROW - 1}H${x}z` });
            const text = n.short.length > fit ? n.short.slice(0, fit - 1) + '…' : n.short;
            if (fit > 2) make('text', n.el, { x: x + 3, y: y + 13 }, text);
        }
        frames.replaceChildren(part);
        return (deepest + 1) * ROW + top;
    }
    function mark(hits, top, scale) { // the call graph is only scaled to the window
        for (const n of list) n.el.setAttribute('class', 'node' + (hits.has(n) ? ' hit' : '') + (n === current ? ' cur' : ''));
        find('.graph').setAttribute('transform', `translate(${(svg.clientWidth - svg.dataset.right * scale) / 2} ${top}) scale(${scale})`);
        return top + Number(svg.dataset.bottom) * scale;
    }
    function apply() {
        list = frames && on('i') ? backward = backward || invert(forward) : forward;
        zoomed = list[state.get('z') | 0] || list[0];
        svg.classList.toggle('dark', dark());
        svg.classList.toggle('light', !dark());
        for (const el of svg.querySelectorAll('button')) el.classList.toggle('on', on(el.dataset.k));
        if (box.value !== (state.get('s') || '')) box.value = state.get('s') || '';
        over.classList.remove('shown');
        for (const el of svg.querySelectorAll('.head')) el.setAttribute('width', svg.clientWidth - 2 * SIDE);
        bar.parentNode.setAttribute('height', bar.offsetHeight);
        const hits = search(), top = bar.offsetHeight + 10, scale = Math.min(1, svg.clientWidth / svg.dataset.right);
        const bottom = frames ? draw(hits, top) : mark(hits, top, scale), end = bottom + (find('.list')?.offsetHeight ?? 0);
        for (const [what, y] of [['.foot', end + 20], ['.after', bottom + 10]]) find(what)?.setAttribute('y', y);
        svg.setAttribute('height', Math.max(end + 32, document.documentElement === svg ? innerHeight : 0));
    }
    function settle() { current = null; apply(); }
    function zoom(node) { set('z', frames && node && node.id ? String(node.id) : ''); current = node; save(true); apply(); }
    function describe(node, x, y) {
        const share = (v) => value(v) + ', ' + percent(v, svg.dataset.total);
        say(node.short, 'total ' + share(node.total) + (zoomed.up ? ' (' + percent(node.total, zoomed.total) + ' of the zoomed frame)' : '') +
            '\nself ' + share(node.self) + (node.base ? '\nbefore ' + node.base : '') +
            (node.more ? '\n' + node.more + ' frames too narrow to draw' : '') + (node.short === node.name ? '' : '\n' + node.name), x, y);
    }
    function say(name, text, x, y) {
        hint.firstChild.textContent = name;
        hint.lastChild.textContent = text;
        over.classList.add('shown');
        const low = y + 20 + hint.offsetHeight > scrollY + innerHeight ? -10 - hint.offsetHeight : 20;
        hint.style.left = Math.max(4, Math.min(x, svg.clientWidth - hint.offsetWidth - 8)) + 'px';
        hint.style.top = Math.max(4, y + low) + 'px';
    }
    function show(node) {
        if (!node) return;
        current = node;
        if (frames && !(node.el && node.width > 2)) zoom(node); else apply();
        node.el.scrollIntoView({ block: 'nearest' });
        const at = node.el.getBoundingClientRect(), from = svg.getBoundingClientRect();
        describe(node, at.left - from.left, at.top - from.top);
    }
    function step(by) {
        const at = matches.indexOf(current), next = at < 0 ? (by < 0 ? -1 : 0) : at + by;
        show(matches[(next + matches.length) % matches.length]);
    }
    const flip = (key) => () => { set(key, on(key) ? '' : '1'); if (key === 'i') set('z'); save(true); settle(); };
    const beside = (by) => () => { const k = current && current.up ? current.up.kids : list; show(k[k.indexOf(current) + by]); };
    const deeper = (yes) => () => show(!current ? list[0] : yes === (on('i') !== on('f')) ? current.kids[0] : current.up);
    const keys = {
        '/': () => box.select(), n: () => step(1), N: () => step(-1), i: flip('i'), f: flip('f'), c: flip('c'),
        0: () => { set('s'); zoom(null); }, d: () => { set('t', dark() ? 'l' : 'd'); save(); apply(); }, Enter: () => zoom(current),
        '?': () => say('Keys', find('.help').textContent, svg.clientWidth, 30), Escape: () => { set('s'); save(); settle(); },
        ArrowLeft: beside(-1), ArrowRight: beside(1), ArrowDown: deeper(true), ArrowUp: deeper(false),
    };
    const node = (e) => { const el = e.target.closest('.f, .node'); return el && el.node; };
    svg.addEventListener('click', (e) => node(e) ? zoom(node(e)) : (keys[e.target.dataset.k] || (() => {}))());
    svg.addEventListener('mousemove', (e) => {
        const at = svg.getBoundingClientRect();
        if (node(e)) describe(node(e), e.clientX - at.left, e.clientY - at.top); else if (!e.target.dataset.k) over.classList.remove('shown');
    });
    svg.addEventListener('keydown', (e) => {
        const typing = e.target === box && e.key !== 'Escape';
        const key = typing && e.key === 'Enter' ? (e.shiftKey ? 'N' : 'n') : e.key;
        const other = e.ctrlKey || e.metaKey || e.altKey || (e.target.dataset.k && key === 'Enter'); // buttons handle Enter themselves
        if (other || !keys[key] || (typing && e.key !== 'Enter')) return;
        e.preventDefault();
        if (key === 'Escape') box.blur();
        keys[key]();
    });
    box.addEventListener('input', () => { set('s', box.value); save(); settle(); });
    for (const [on, event, act] of [[window, 'resize', apply], [window, 'popstate', load],
        [matchMedia('(prefers-color-scheme: dark)'), 'change', apply]]) on.addEventListener(event, act);
    svg.classList.add('live');
    svg.removeAttribute('viewBox');
    svg.setAttribute('width', '100%');
    load();
})();
