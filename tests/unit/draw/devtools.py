# SPDX-License-Identifier: Apache-2.0
"""A .heapsnapshot in the DevTools of a headless Chromium. The browser serves its own DevTools on its debugging port; a page of that
origin starts the two workers that the Memory panel starts, and asks them what the panel asks."""

import subprocess
import sys
import unittest

import browser

DRAW = sys.argv.pop(1)

LOAD = """
const [text, done] = arguments;
const address = '/devtools/entrypoints/heap_snapshot_worker/heap_snapshot_worker-entrypoint.js';
function start() {
  const worker = new Worker(address, {type: 'module'}), waiting = new Map();
  let calls = 0, ready;
  const isReady = new Promise((resolve, reject) => { ready = resolve; worker.onerror = () => reject('no worker'); });
  worker.onmessage = ({data}) => {
    if (data === 'workerReady') return ready();
    const call = waiting.get(data.callId);
    if (call) data.error ? call[1](data.error) : call[0](data.result);
  };
  return async (disposition, objectId, more, ports = []) => {
    await isReady;
    return new Promise((...both) => {
      waiting.set(++calls, both);
      worker.postMessage({callId: calls, disposition, objectId, ...more}, ports);
    });
  };
}
(async () => {
  const first = start(), second = start(), channel = new MessageChannel();
  const ask = (methodName, ...methodArguments) => first('method', 2, {methodName, methodArguments});
  await first('createLoader', 1);
  for (let at = 0; at < text.length; at += 1000)
    await first('method', 1, {methodName: 'write', methodArguments: [text.slice(at, at + 1000)]});
  await first('method', 1, {methodName: 'close', methodArguments: []});
  second('setupForSecondaryInit', 1, {}, [channel.port1]);
  await first('factory', 1, {newObjectId: 2, methodName: 'buildSnapshot', methodArguments: []}, [channel.port2]);
  const total = await first('getter', 2, {methodName: 'totalSize'});
  const classes = await ask('aggregatesWithFilter', {});
  const site = Object.values(classes).find(one => one.name === 'new_node');
  return {
    total, classes: Object.values(classes),
    tops: await ask('allocationTracesTops'),
    stack: site ? await ask('allocationStack', site.idxs[0]) : null,
  };
})().then(done, error => done({error: String(error)}));
"""


class DevTools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        driver = cls.browser.driver
        driver.set_script_timeout(30)
        driver.get(f"http://{driver.capabilities['goog:chromeOptions']['debuggerAddress']}/json/version")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def load(self, *arguments):
        text = subprocess.run([DRAW, "heapsnapshot", *arguments], check=True, capture_output=True).stdout.decode()
        result = self.browser.driver.execute_async_script(LOAD, text)
        self.assertNotIn("error", result)
        return result

    def test_sizes_by_site_are_the_profiles(self):
        result = self.load("trimmed")
        expected = {"grow_table": (10, 31097609), "new_node": (40, 20972800), "[libfixture.so.1]+0x2000": (2, 1049276),
                    "[allocator]": (1, 526338)}
        self.assertEqual(result["total"], sum(size for _, size in expected.values()))
        classes = {c["name"]: (c["count"], c["self"]) for c in result["classes"] if c["self"]}
        self.assertEqual(classes, expected)
        retained = {c["name"]: c["maxRet"] for c in result["classes"] if c["self"]}
        self.assertEqual(retained, {name: size for name, (_, size) in expected.items()})

    def test_allocations_are_seen_with_their_stacks(self):
        result = self.load("trimmed")
        tops = {top["name"]: (top["count"], top["size"], top["liveCount"], top["liveSize"]) for top in result["tops"]}
        self.assertEqual(tops["new_node"], (40, 20972800, 40, 20972800))
        self.assertEqual([frame["functionName"] for frame in result["stack"]][:3], ["new_node", "insert<Key>", "main"])
        self.assertEqual(result["stack"][0]["scriptName"], "server")

    def test_all_one_counts(self):
        self.assertEqual(self.load("trimmed", "all_one")["total"], 53)

    def test_an_empty_heap_opens(self):
        self.assertEqual(self.load("empty_heap")["total"], 0)


unittest.main(argv=["devtools"])
