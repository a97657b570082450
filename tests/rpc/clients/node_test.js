// SPDX-License-Identifier: Apache-2.0
//
// A Node client of the service: live windows, cancellation, refusals, and the example client run as a program.
"use strict";

const assert = require("assert");
const { execFile, spawn } = require("child_process");
const fs = require("fs");
const path = require("path");

const [server, proto, example] = process.argv.slice(2).map((name) => path.resolve(name));
const { connect, metadata, Dictionary } = require(example);

function startServer() {
    const folder = fs.mkdtempSync(`${require("os").tmpdir()}/x.`);
    const child = spawn(server, ["--grpc", `unix:${folder}/rpc.sock`], { stdio: ["ignore", "pipe", "inherit"] });
    return new Promise((resolve, reject) => {
        child.on("error", reject);
        child.stdout.on("data", (text) => resolve({ child, folder, address: String(text).trim().slice("grpc: ".length) }));
    });
}

async function stopServer({ child, folder }) {
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGTERM");
    assert.strictEqual(await ended, 0);
    fs.rmSync(folder, { recursive: true });
}

function unary(client, method, request) {
    return new Promise((resolve, reject) =>
        client[method](request, metadata(), { deadline: Date.now() + 10000 },
            (error, answer) => error ? reject(error) : resolve(answer)));
}

function pause(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}

async function captureEnds(client) {
    for (let i = 0; i < 500; i++) {
        if ((await unary(client, "GetInfo", {})).captures_running === 0)
            return;
        await pause(20);
    }
    assert.fail("a capture still runs");
}

const tests = {
    async stream_sends_each_name_once({ client }) {
        const known = new Dictionary();
        let windows = 0, samples = 0, last;
        for await (const window of client.StreamCpu({ window_ms: 50, max_windows: 3 })) {
            known.add(window);
            windows++;
            last = window;
            for (const { stack, count } of window.counts) {
                samples += Number(count);
                assert.strictEqual(known.functions(stack).at(-1), "main");
            }
        }
        assert.strictEqual(windows, 3);
        assert.strictEqual(last.end_reason, "max_windows");
        assert.ok(samples >= 90);
        assert.strictEqual(known.stacks.length, 3);
    },

    async cancel_ends_the_capture({ client }) {
        const stream = client.StreamCpu({ window_ms: 50 });
        const error = await new Promise((resolve) => {
            stream.on("data", () => stream.cancel());
            stream.on("error", resolve);
        });
        assert.strictEqual(error.code, 1);
        await captureEnds(client);
    },

    async refusal_has_reason_and_sentence({ client }) {
        const error = await unary(client, "GetCommandLine", { target: { name: "nobody" } }).catch((reason) => reason);
        assert.strictEqual(error.code, 5);
        assert.strictEqual(error.details, 'no target "nobody" is attached');
        assert.deepStrictEqual(error.metadata.get("sonde-reason"), ["TARGET_NOT_FOUND"]);
    },

    async example_program_writes_a_file({ address, folder }) {
        const output = path.join(folder, "demo.collapsed");
        await new Promise((resolve, reject) =>
            execFile(process.execPath, [example, "--service", address, "--proto", proto, "--seconds", "0.05", "--output",
                output, "capture", "demo"], (error) => error ? reject(error) : resolve()));
        assert.match(fs.readFileSync(output, "utf8"), /main;/);
    },

    async example_program_takes_all_processes_and_a_source({ address, folder }) {
        const run = (...words) => new Promise((resolve) =>
            execFile(process.execPath, [example, "--service", address, "--proto", proto, ...words],
                (error, out, err) => resolve({ code: error ? error.code : 0, out, err })));
        const { out } = await run("targets", "--all");
        assert.strictEqual(out, "4242\tdemo\tfake\n78\toutside\tfake\n");
        assert.strictEqual((await run("targets")).out, "4242\tdemo\tfake\n");
        const capture = ["--seconds", "0.05", "--output", path.join(folder, "all.txt"), "capture"];
        for (const target of ["@all", "@all:demo", "@all:78", "78"])
            assert.strictEqual((await run(...capture, target, "--source", "HOST")).code, 0);
        const refused = await run(...capture, "@all", "--source", "GUEST");
        assert.strictEqual(refused.code, 1);
        assert.match(refused.err, /INVALID_ARGUMENT: source: several processes/);
    },
};

async function main() {
    const counts = { passed: 0, failed: 0 };
    for (const [name, test] of Object.entries(tests)) {
        const running = await startServer();
        const client = connect(running.address, proto);
        try {
            await test({ ...running, client });
            console.log(`ok      ${name}`);
            counts.passed++;
        } catch (error) {
            console.log(`FAILED  ${name}: ${error.stack}`);
            counts.failed++;
        }
        client.close();
        await stopServer(running);
    }
    console.log(`${counts.passed} passed, ${counts.failed} failed, 0 skipped`);
    process.exitCode = counts.failed ? 1 : 0;
}

main();
