#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// A small client of Sonde's gRPC service, to use or to copy from. It requires @grpc/grpc-js and @grpc/proto-loader.
//
//     sonde_client.js [--service ADDR] targets [--all]
//     sonde_client.js [--service ADDR] capture --seconds 10 --output redis.svg [TARGET]
//     sonde_client.js [--service ADDR] live [--windows N] [TARGET]
//     sonde_client.js [--service ADDR] heap on|off|status [TARGET]
//     sonde_client.js [--service ADDR] symbolize TARGET 0xADDRESS...
//
// TARGET is a name or a pid of any process; @all is the whole machine, @all:NAME every process of that name, @all:PID a
// process and all that it starts. --source is AUTOMATIC, HOST or GUEST.
//
// Note: without keepCase, proto-loader renames all fields to camelCase and silently ignores a field that is sent as
// `window_ms`.
"use strict";

const fs = require("fs");
const path = require("path");
const { parseArgs } = require("util");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const FORMATS = [
    [".pb.gz", "PPROF"],
    [".svg", "SVG_FLAMEGRAPH"],
    [".collapsed", "COLLAPSED"],
    [".speedscope.json", "SPEEDSCOPE"],
    [".firefox.json", "FIREFOX"],
    [".md", "MARKDOWN"],
    [".txt", "TEXT_TOP"],
    [".prof", "LEGACY_CPU"],
];

// Returns a client of sonde.v1.Profiler. 64-bit numbers arrive as strings.
function connect(address, proto) {
    const definition = loader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });
    const { Profiler } = grpc.loadPackageDefinition(definition).sonde.v1;
    return new Profiler(address, grpc.credentials.createInsecure());
}

function metadata(token) {
    const data = new grpc.Metadata();
    if (token)
        data.set("authorization", `Bearer ${token}`);
    return data;
}

function selector(target) {
    if (!target)
        return {};
    if (/^@all(:|$)/.test(target))
        return { ...selector(target.slice("@all:".length)), all: true };
    return /^\d+$/.test(target) ? { pid: Number(target) } : { name: target };
}

// The strings, frames and stacks that a stream has sent so far; windows refer to them by index.
class Dictionary {
    strings = [];
    frames = [];
    stacks = [];

    add(window) {
        for (const kind of ["strings", "frames", "stacks"])
            for (const item of window[kind])
                this[kind].push(item);
    }

    // The names of the functions of a stack, leaf first.
    functions(stack) {
        return this.stacks[stack].frames.map((frame) => this.strings[this.frames[frame].function]);
    }
}

function fail(error) {
    const [reason] = error.metadata ? error.metadata.get("sonde-reason") : [];
    console.error(`${reason || grpc.status[error.code]}: ${error.details}`);
    process.exit(1);
}

function showTargets(client, meta, options) {
    const request = { include_unattached: Boolean(options.all) };
    client.ListTargets(request, meta, { deadline: Date.now() + 30000 }, (error, answer) => {
        if (error)
            return fail(error);
        for (const target of answer.targets)
            console.log(`${target.pid}\t${target.name}\t${target.clock || "-"}`);
        client.close();
    });
}

function capture(client, meta, options, target) {
    const output = options.output || "";
    const format = FORMATS.find(([ending]) => output.endsWith(ending));
    if (!format)
        return console.error(`--output: unknown extension; use one of ${FORMATS.map(([ending]) => ending).join(" ")}`);
    const chunks = [];
    let result;
    const stream = client.CaptureCpu({
        target: selector(target),
        duration_ms: Math.round(Number(options.seconds || 10) * 1000),
        frequency_hz: Number(options.hz || 99),
        source: options.source || "AUTOMATIC",
        rendering: { format: format[1] },
    }, meta);
    stream.on("data", (event) => {
        if (event.event === "progress")
            process.stderr.write(`\r${Math.round(event.progress.elapsed_ms / 1000)} s  ${event.progress.samples} samples`);
        else if (event.event === "chunk")
            chunks.push(event.chunk);
        else if (event.event === "result")
            result = event.result;
    });
    stream.on("error", fail);
    stream.on("end", () => {
        if (!result)
            return;
        fs.writeFileSync(output, Buffer.concat(chunks)); // write the file only once the result is complete
        console.error(`${output}: ${result.samples} samples, ${result.dropped} dropped`);
        client.close();
    });
}

function describe(known, window) {
    const leaves = new Map();
    let total = 0;
    for (const { stack, count } of window.counts) {
        const name = known.functions(stack)[0] || "";
        leaves.set(name, (leaves.get(name) || 0) + Number(count));
        total += Number(count);
    }
    const top = [...leaves].sort((a, b) => b[1] - a[1]).slice(0, 3)
        .map(([name, hits]) => `${name} ${Math.round(100 * hits / total)} %`);
    return `${window.sequence}: ${total} samples  ${top.join("  ")}`;
}

function live(client, meta, options, target) {
    const known = new Dictionary();
    const stream = client.StreamCpu({
        target: selector(target),
        window_ms: Number(options.window || 1000),
        source: options.source || "AUTOMATIC",
        max_windows: Number(options.windows || 0),
    }, meta);
    stream.on("data", (window) => {
        known.add(window);
        console.log(describe(known, window));
    });
    stream.on("error", fail);
    stream.on("end", () => client.close());
    process.on("SIGINT", () => stream.cancel()); // stops the sampling in the target, too
}

// Switches heap profiling of a target, or says what it is; a target that cannot be profiled says why in `note`.
function heap(client, meta, options, toggle, target) {
    const done = (error, answer) => {
        if (error)
            return fail(error);
        const state = answer.state || answer;
        console.log(!state.available ? `not available: ${state.note}`
            : state.active ? `on, one sample per ${state.sample_bytes} bytes` : "off");
        client.close();
    };
    const methods = { on: client.HeapActivate, off: client.HeapDeactivate, status: client.HeapStatus };
    if (!methods[toggle])
        return console.error("usage: sonde_client.js heap on|off|status [TARGET]");
    methods[toggle].call(client, { target: selector(target) }, meta, { deadline: Date.now() + 30000 }, done);
}

// Prints each address with its function, file and line. Inlined functions come first, callers below them.
function symbolize(client, meta, options, target, ...addresses) {
    const request = { target: selector(target), addresses: addresses.map((text) => BigInt(text).toString()), wait_ms: 5000 };
    client.Symbolize(request, meta, { deadline: Date.now() + 30000 }, (error, answer) => {
        if (error)
            return fail(error);
        answer.symbols.forEach(({ frames, reason }, index) => {
            for (const frame of frames)
                console.log(`${addresses[index]}  ${frame.name}${frame.file ? ` ${frame.file}:${frame.line}` : ""}`);
            if (frames.length === 0)
                console.log(`${addresses[index]}  ?? ${reason || "in no mapping"}`);
        });
        client.close();
    });
}

function main() {
    const text = { type: "string" };
    const { values, positionals } = parseArgs({
        allowPositionals: true,
        options: {
            service: text, token: text, proto: text, output: text, seconds: text, hz: text, window: text, windows: text,
            source: text, all: { type: "boolean" },
        },
    });
    const verb = { targets: showTargets, capture, live, heap, symbolize }[positionals[0]];
    if (!verb)
        return console.error("usage: sonde_client.js [--service ADDR] targets|capture|live|heap|symbolize ...");
    const proto = values.proto || path.join(__dirname, "../../proto/sonde/v1/profiler.proto");
    const address = values.service || process.env.SONDE_SERVICE || "unix:/run/sonde/grpc.sock";
    verb(connect(address, proto), metadata(values.token || process.env.SONDE_TOKEN), values, ...positionals.slice(1));
}

module.exports = { connect, metadata, selector, Dictionary };

if (require.main === module)
    main();
