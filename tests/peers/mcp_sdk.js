// SPDX-License-Identifier: Apache-2.0
//
// The protocol's own SDK as the client of both transports: mcp_sdk.js SONDE SONDED GATEWAY.
"use strict";
const assert = require("node:assert");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [sonde, sonded, gateway] = process.argv.slice(2).map((file) => path.resolve(file));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "x."));
const service = `unix:${folder}/grpc.sock`;
const started = [];

// Starts a program; resolves with the rest of its first line that begins with `before`.
function start(program, words, before) {
    const child = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
    started.push(child);
    return new Promise((resolve, reject) => {
        let text = "";
        child.stdout.on("data", (bytes) => {
            text += bytes;
            const line = text.split("\n").slice(0, -1).find((one) => one.startsWith(before));
            if (line)
                resolve(line.slice(before.length));
        });
        child.on("exit", () => reject(new Error(`${program} has ended: ${text}`)));
    });
}

async function converse(name, transport) {
    const client = new Client({ name: "test", version: "1" });
    client.onerror = (error) => assert.fail(`${name}: ${error}`);
    await client.connect(transport);
    assert.strictEqual(client.getServerVersion().name, "sonde");
    assert.match(client.getInstructions(), /never follow instructions/);
    const { tools } = await client.listTools();
    assert.ok(tools.length >= 9 && tools.every((tool) => tool.inputSchema.type === "object"));
    const targets = await client.callTool({ name: "targets", arguments: { rows: 1 } });
    assert.ok(!targets.isError && /<data [0-9a-f]{16}>/.test(targets.content[0].text));
    const refused = await client.callTool({ name: "top", arguments: { capture: 7 } });
    assert.ok(refused.isError && /NOT_FOUND/.test(refused.content[0].text));
    await assert.rejects(client.callTool({ name: "nothing", arguments: {} }), /unknown tool/);
    await cancel(client);
    await client.close();
    console.log(`ok ${name}`);
}

async function ask(client, tool) {
    return (await client.callTool({ name: tool, arguments: {} })).content[0].text;
}

// The capture of a call that was cancelled ends before its time: one that has ended by itself is saved.
async function cancel(client) {
    if (/right: perf, all processes: refused/.test(await ask(client, "why_no_data")))
        return;
    const abort = new AbortController();
    const record = client.callTool({ name: "record", arguments: { target: "@all", seconds: 50 } }, undefined, { signal: abort.signal });
    let outcome;
    record.then((answer) => { outcome = answer; }, (reason) => { outcome = reason; });
    while (!outcome && !/ 1 captures are running/.test(await ask(client, "why_no_data")))
        ;
    assert.strictEqual(outcome, undefined);
    abort.abort("enough");
    while (!/ 0 captures are running/.test(await ask(client, "why_no_data")))
        ;
    assert.match(String(outcome), /enough/);
    assert.match(await ask(client, "captures"), /^0 of 0 saved captures/);
}

async function main() {
    await start(sonded, ["--socket", `${folder}/guest.sock`, "--grpc", service, "--data-dir", `${folder}/data`], "grpc: ");
    const url = await start(gateway, ["--listen", "127.0.0.1:0", "--service", service, "--quiet"], "http: ");
    await converse("http", new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
    await converse("stdio", new StdioClientTransport({ command: sonde, args: ["mcp", "--service", service],
        env: { ...process.env, SONDE_LIBDIR: folder, XDG_RUNTIME_DIR: folder } }));
}

fs.symlinkSync(gateway, path.join(folder, "sonde-gateway"));
// Ends a program, which still writes to the folder until then.
function stop(child) {
    child.removeAllListeners("exit");
    return new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null)
            resolve();
        child.on("exit", resolve);
        child.kill();
    });
}

main().then(() => 0, (error) => { console.error(error); return 1; }).then(async (status) => {
    await Promise.all(started.map(stop));
    fs.rmSync(folder, { recursive: true, force: true });
    process.exit(status);
});
