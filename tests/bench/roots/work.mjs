// SPDX-License-Identifier: Apache-2.0
// Interpreted, baseline and optimised code; calls from C++ back into JavaScript; regular expressions, JSON and garbage.
const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);

function tree(depth) {
    return depth ? {left: tree(depth - 1), right: tree(depth - 1), text: `node ${depth}`} : {text: "leaf"};
}

function round(number) {
    const words = Array.from({length: 2000}, (_, index) => `word${(index * 7919 + number) % 2003}`);
    words.sort((a, b) => a < b ? -1 : 1);
    const copy = JSON.parse(JSON.stringify(tree(9)));
    const found = words.join(" ").replace(/word(\d)(\d+)/g, (_, first, rest) => rest + first);
    return fib(18) + copy.left.text.length + found.length + new Map(words.map(word => [word, number])).size;
}

let sum = 0;
function turn(number) {
    for (let end = Date.now() + 20; Date.now() < end;)
        sum += round(number);
    setImmediate(turn, number + 1);
}
turn(0);
