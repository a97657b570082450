# SPDX-License-Identifier: Apache-2.0
"""Opens a .heapsnapshot in the DevTools of a headless Chromium. The browser serves its DevTools on the debugging port. A page of
that origin starts the workers of the Memory panel and sends them the panel's requests."""

import browser

LOAD = """
const [text, site, done] = arguments;
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
  const step = Math.max(1000, text.length >> 8);
  for (let at = 0; at < text.length; at += step)
    await first('method', 1, {methodName: 'write', methodArguments: [text.slice(at, at + step)]});
  await first('method', 1, {methodName: 'close', methodArguments: []});
  second('setupForSecondaryInit', 1, {}, [channel.port1]);
  await first('factory', 1, {newObjectId: 2, methodName: 'buildSnapshot', methodArguments: []}, [channel.port2]);
  const total = await first('getter', 2, {methodName: 'totalSize'});
  const classes = await ask('aggregatesWithFilter', {});
  const found = Object.values(classes).find(one => one.name === site);
  return {
    total, classes: Object.values(classes),
    tops: await ask('allocationTracesTops'),
    stack: found ? await ask('allocationStack', found.idxs[0]) : null,
  };
})().then(done, error => done({error: String(error)}));
"""


class DevTools:
    def __init__(self):
        self.browser = browser.Browser()
        driver = self.browser.driver
        driver.set_script_timeout(60)
        driver.get(f"http://{driver.capabilities['goog:chromeOptions']['debuggerAddress']}/json/version")

    def load(self, text, site=""):
        """What the Memory panel shows: total size, classes, largest sites, and the stack of an object of the site."""
        result = self.browser.driver.execute_async_script(LOAD, text, site)
        assert "error" not in result, result["error"]
        return result

    def close(self):
        self.browser.close()
