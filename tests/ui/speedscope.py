# SPDX-License-Identifier: Apache-2.0
"""speedscope, installed beside Sonde's programs, opens a capture of the gateway under the gateway's policy."""

import os
import shutil

from tests.cli import check
from tests.e2e import stack
from tests.ui import browser

RELEASE = os.path.join(os.environ.get("SONDE_NODE_MODULES", "/nowhere"), "speedscope/dist/release")
SHOTS = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", stack.WORK)
if not os.path.isdir(RELEASE):
    browser.skip("no speedscope in SONDE_NODE_MODULES")
if not (shutil.which("chromium") and os.path.exists("/usr/bin/chromedriver") and browser.webdriver):
    browser.skip("no chromium, chromedriver or python3-selenium")
stack.install()
shutil.copytree(RELEASE, os.path.join(stack.PREFIX, "share/sonde/speedscope"))
SERVER = stack.Server(os.path.abspath("clients/demo/demo"), "-t", "1", "--tick", flags=("--name", "demo"), ready="demo: pid")
BROWSER = browser.Browser()


def test_a_capture_is_opened():
    status, _, _ = SERVER.get("/v1/captures?seconds=1&frequency=499", method="POST")
    check.equal(status, 201)
    BROWSER.driver.get(SERVER.page + "/speedscope/#profileURL=%2Fv1%2Fcaptures%2F1.speedscope.json&title=capture%201")
    check.until(lambda: "Time Order" in BROWSER.driver.page_source, seconds=60, what="speedscope's toolbar")
    check.until(lambda: BROWSER.driver.execute_script("return document.querySelectorAll('canvas').length") > 0, seconds=60,
                what="speedscope's canvas")
    BROWSER.driver.save_screenshot(os.path.join(SHOTS, "speedscope.png"))
    refused = [line for line in BROWSER.errors() if "Content Security Policy" in line or "Error" in line or "Failed" in line]
    check.equal(refused, [])  # speedscope and its WebGL also log what is not an error


def test_the_page_can_ask_whether_it_is_installed():
    check.equal(SERVER.get("/speedscope/", method="HEAD")[0], 200)


try:
    check.main(globals())
finally:
    BROWSER.close()
    SERVER.stop()
