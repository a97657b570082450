// SPDX-License-Identifier: Apache-2.0
// Menus and dialogs: one at a time, closed by Escape and by a click elsewhere; the focus returns to where it was.
import { button, h } from './dom.js';

let openMenu = null;

export function closeMenu() {
    openMenu?.close();
}

// Shows a menu at a place of the window. Items are { text, run } or { text, href }.
export function showMenu(items, x, y) {
    closeMenu();
    const before = document.activeElement, close = () => {
        menu.remove();
        document.removeEventListener('pointerdown', onOutside, true);
        openMenu = null;
        before?.focus?.();
    };
    const act = (item) => () => {
        close();
        item.run?.();
    };
    const menu = h('div', { class: 'menu', role: 'menu', onkeydown: (event) => moveInMenu(event, menu, close) }, items.map((item) => (item.href
        ? h('a', { role: 'menuitem', href: item.href, tabindex: -1, onclick: act(item) }, item.text)
        : button(item.text, act(item), { role: 'menuitem', tabindex: -1 }))));
    const onOutside = (event) => menu.contains(event.target) || close();
    document.body.append(menu);
    document.addEventListener('pointerdown', onOutside, true);
    menu.style.left = `${Math.max(4, Math.min(x, window.innerWidth - menu.offsetWidth - 4))}px`;
    menu.style.top = `${Math.max(4, Math.min(y, window.innerHeight - menu.offsetHeight - 4))}px`;
    menu.firstChild?.focus();
    openMenu = { close };
}

function moveInMenu(event, menu, close) {
    const items = [...menu.children], at = items.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape' || event.key === 'Tab') close();
    else if (step) items[(at + step + items.length) % items.length].focus();
    else if (event.key !== 'Home' && event.key !== 'End') return;
    else items.at(event.key === 'Home' ? 0 : -1).focus();
    event.preventDefault();
    event.stopPropagation();
}

// A button that opens a menu below itself. makeItems() is called each time; it may be async.
export function menuButton(text, makeItems, properties = {}) {
    const self = button(text, async () => {
        const items = await makeItems(), box = self.getBoundingClientRect();
        showMenu(items, box.left, box.bottom + 2);
    }, { 'aria-haspopup': 'menu', ...properties });
    return self;
}

export function showDialog(title, ...content) {
    const dialog = h('dialog', { 'aria-label': title, onclose: () => dialog.remove() }, h('h2', {}, title), content,
        h('p', { class: 'right' }, button('Close', () => dialog.close())));
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}

// A short note that goes away by itself.
export function notify(text) {
    document.querySelector('.toast')?.remove();
    const toast = h('div', { class: 'toast', role: 'status' }, text);
    document.body.append(toast);
    setTimeout(() => toast.remove(), 4000);
}

export async function copyText(text, what) {
    try {
        await navigator.clipboard.writeText(text);
        notify(`copied ${what}: ${text.length > 80 ? `${text.slice(0, 79)}…` : text}`);
    } catch {
        const field = h('textarea', { readonly: true, rows: 6, cols: 60 });
        field.value = text;
        showDialog(`Copy ${what}`, h('p', {}, 'The browser does not let this page use the clipboard. Copy the text from here:'), field);
        field.select();
    }
}
