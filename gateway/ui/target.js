// SPDX-License-Identifier: Apache-2.0
// The chosen target in words. A process that is chosen by its pid has a name, too.
import { getJson, isOffline } from './api.js';
import { targetName, targetPrefix } from './state.js';

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
