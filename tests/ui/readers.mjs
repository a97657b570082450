// SPDX-License-Identifier: Apache-2.0
// readers.mjs FOLDER FILE...: prints a line of JSON per file: { stacks, functions, ... } as the page reads them, in the format of collapsed files, or
// { error }. readers.mjs FOLDER --compare BASE NEW [NAME]: prints by function the change of its total share: { low, high, verdict };
// with NAME, as if the service had found that this function alone changed.
import { readFileSync } from 'node:fs';

const [folder, ...files] = process.argv.slice(2);
const { join, judge } = await import(`${folder}/profile.js`), { functionTable, stackPaths } = await import(`${folder}/tree.js`);
const { decode } = await import(`${folder}/pprof.js`), { buildTree } = await import(`${folder}/tree.js`);

// The total of the graph, and whether no frame is wider than its caller.
function graphOf(profile) {
    const tree = buildTree(profile, profile.defaultType), left = tree.total.slice();
    for (let n = 1; n < tree.count; n++) left[tree.parent[n]] -= tree.total[n];
    return { total: tree.total[0], fits: left.every((rest) => rest >= 0) };
}

function stacksOf(profile) {
    const sums = new Map();
    for (let s = 0; s < profile.stackCount; s++) {
        const frames = profile.frame.slice(profile.start[s], profile.start[s + 1]), key = frames.map((fn) => profile.functions[fn].name).join(';');
        sums.set(key, (sums.get(key) ?? 0) + profile.values[profile.defaultType][s]);
    }
    return Object.fromEntries(sums);
}

async function compare([basePath, nowPath, changed]) {
    const [base, now] = await Promise.all([basePath, nowPath].map((path) => decode(new Uint8Array(readFileSync(path)))));
    if (changed) base.changed = new Set([changed]);
    const both = join(now, base, now.defaultType, base.defaultType), tree = buildTree(both, 0, stackPaths(both)), rows = functionTable(tree);
    const changes = judge(tree, rows);
    console.log(JSON.stringify(Object.fromEntries(rows.map(({ fn }, n) => [both.functions[fn].name, changes[n]]))));
}

if (files[0] === '--compare') await compare(files.splice(0).slice(1));
for (const file of files) {
    const answer = await decode(new Uint8Array(readFileSync(file))).then((profile) => ({ stacks: stacksOf(profile), comments: profile.comments, functions: profile.functions.length, graph: graphOf(profile) }), (error) => ({ error: error.message }));
    console.log(JSON.stringify(answer));
}
