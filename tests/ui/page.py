# SPDX-License-Identifier: Apache-2.0
"""The gateway in a browser: profiles, with and without the target in the path, and saved captures are flame graphs with zoom and
search. The difference of two captures is red and blue. The list of links at /debug/pprof/ links to all of them."""

import os
import shutil

from tests.cli import check
from tests.e2e import stack
from tests.ui import browser

DEMO = os.path.abspath("clients/demo/demo")
SHOTS = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", stack.WORK)
if not (shutil.which("chromium") and os.path.exists("/usr/bin/chromedriver") and browser.webdriver):
    browser.skip("no chromium, chromedriver or python3-selenium")
stack.install()
SERVER = stack.Server(DEMO, "-t", "1", "--tick", flags=("--name", "demo"), ready="demo: pid")
BROWSER = browser.Browser()
DRIVER = BROWSER.driver
FRAMES = """return [...document.querySelectorAll('.frames .f')].map((g) =>
    [g.node.name, g.querySelector('path').getBBox().width, g.node.total]);"""


def go(path):
    DRIVER.get("about:blank")
    BROWSER.errors()
    DRIVER.get(SERVER.page + path)


def frames():
    return DRIVER.execute_script(FRAMES)


def width(name):
    return max((one[1] for one in frames() if one[0] == name), default=0)


def click(name):
    DRIVER.execute_script("""[...document.querySelectorAll('.frames .f')].filter((g) => g.node.name === arguments[0])
        .sort((a, b) => b.node.total - a.node.total)[0].querySelector('path')
        .dispatchEvent(new MouseEvent('click', { bubbles: true }));""", name)


def search(term):
    DRIVER.execute_script("""const box = document.querySelector('input');
        box.value = arguments[0];
        box.dispatchEvent(new Event('input', { bubbles: true }));""", term)
    return DRIVER.execute_script("return document.querySelector('.count').textContent")


def shoot(name):
    DRIVER.save_screenshot(os.path.join(SHOTS, name + ".png"))


def is_a_flame_graph_that_zooms_and_searches():
    everything = width("all")
    assert everything > 1000, frames()[:5]
    before = width("apply_policy")
    assert 0 < before < everything * 0.99, before
    click("apply_policy")
    check.near(width("apply_policy"), everything, 3, "the width of what was clicked")
    share = search("match_rules")
    assert share.endswith("% matched") and float(share.split()[0]) > 20, share
    check.equal(BROWSER.errors(), [])


def test_the_address_of_a_profile_is_a_flame_graph():
    go("/debug/pprof/profile?seconds=1&frequency=499")
    shoot("profile")
    is_a_flame_graph_that_zooms_and_searches()


def test_with_the_target_in_the_path_too():
    go("/t/demo/debug/pprof/profile?seconds=1&frequency=499")
    is_a_flame_graph_that_zooms_and_searches()


def test_kept_captures_are_shown_and_compared():
    for number in (1, 2):
        status, headers, _ = SERVER.get("/v1/captures?seconds=1&frequency=499", method="POST")
        check.equal((status, dict(headers).get("location")), (201, f"/v1/captures/{number}"))
    go("/v1/captures/1")
    is_a_flame_graph_that_zooms_and_searches()
    go("/v1/diff?base=1&new=2")
    shoot("difference")
    assert any(one[0] == "match_rules" for one in frames())
    check.contains(DRIVER.page_source, "larger share than in the base")
    check.equal(BROWSER.errors(), [])


def test_the_list_of_links_leads_to_the_target_and_its_profile():
    go("/debug/pprof/")
    shoot("list")
    check.equal(BROWSER.errors(), [])
    DRIVER.find_element("link text", "demo").click()
    shoot("target")
    DRIVER.find_element("link text", "changes since 1")  # captures of the previous test
    links = [link.get_attribute("href") for link in DRIVER.find_elements("css selector", "a")]
    assert any("/t/demo/debug/pprof/profile" in link for link in links), links
    assert not any("activate" in link or "profile_start" in link for link in links), links
    check.equal(BROWSER.errors(), [])


try:
    check.main(globals())
finally:
    BROWSER.close()
    SERVER.stop()
