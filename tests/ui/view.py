# SPDX-License-Identifier: Apache-2.0
"""The page in a browser, as the tests of its views use it: texts, buttons, and drags on canvases."""

import os
import shutil
import urllib.parse

from tests.cli import check
from tests.e2e import stack
from tests.ui import browser

SHOTS = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", stack.WORK)
if not (shutil.which("chromium") and os.path.exists("/usr/bin/chromedriver") and browser.webdriver):
    browser.skip("no chromium, chromedriver or python3-selenium")

from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402


class View:
    """A browser that looks at one gateway."""

    def __init__(self, url, **settings):
        self.url = url
        self.browser = browser.Browser(**{"width": 1200, "height": 1000, **settings})
        self.driver = self.browser.driver

    def close(self):
        self.browser.close()

    def go(self, path):
        """Opens a path as a new page, not as a step of the one that is open."""
        self.driver.get("about:blank")
        self.browser.errors()
        self.driver.get(self.url + path)

    def run(self, script, *words):
        return self.driver.execute_script(script, *words)

    def errors(self):
        """Errors on the console, without those about requests that were refused: the page shows their text."""
        return [text for text in self.browser.errors() if "Failed to load resource" not in text]

    def text(self, css="#view"):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')", css)

    def until_text(self, part, css="#view", seconds=30):
        """Waits for a text, and returns all of it."""
        try:
            check.until(lambda: part in self.text(css), seconds)
        except AssertionError:
            check.contains(self.text(css), part)
        return self.text(css)

    def state(self):
        """The settings in the URL."""
        return dict(urllib.parse.parse_qsl(self.driver.current_url.partition("#")[2].partition("?")[2]))

    def click(self, text, css="button"):
        """Clicks an element by its whole text. Elements are drawn again at any moment, so it tries again."""
        def try_once():
            try:
                for one in self.driver.find_elements("css selector", css):
                    if one.text == text and one.is_displayed():
                        one.click()
                        return True
            except (StaleElementReferenceException, ElementClickInterceptedException):
                pass
            return False
        return check.until(try_once, what=f"a {css} with the text {text}")

    def choose(self, label, text):
        """Chooses from a list by the list's name and the option's text."""
        def option():
            return self.run("""const list = document.querySelector(`select[aria-label="${arguments[0]}"]`);
                return [...list?.options ?? []].find((one) => one.text === arguments[1])?.value""", label, text) is not None
        check.until(option, what=f"{text} in the list {label}")
        self.run("""const list = document.querySelector(`select[aria-label="${arguments[0]}"]`);
            list.value = [...list.options].find((one) => one.text === arguments[1]).value;
            list.dispatchEvent(new Event('change', { bubbles: true }))""", label, text)

    def write(self, label, text):
        """Replaces the text of a field by the field's name."""
        check.until(lambda: self.run("""const field = document.querySelector(`input[aria-label="${arguments[0]}"]`);
            if (!field) return false;
            field.value = arguments[1];
            field.dispatchEvent(new Event('change', { bubbles: true }));
            return true""", label, text), what=f"the field {label}")

    def search(self, term):
        """Searches in the profile and returns the share that matches, in percent."""
        self.run("""const box = document.querySelector('.viewer input[type=search]');
            box.value = arguments[0];
            box.dispatchEvent(new Event('input', { bubbles: true }));""", term)
        text = self.until_text("% matched", ".count")
        return float(text.split()[0])

    def drag(self, start, end, key=None, css=".strip canvas"):
        """Drags from one point of a canvas to another; (x, y) in pixels, negative from the right or the bottom."""
        canvas = self.driver.find_element("css selector", css)
        self.run("arguments[0].scrollIntoView({ block: 'center' })", canvas)
        size = canvas.size
        def place(point):
            x, y = (length + part if part < 0 else part for part, length in zip(point, (size["width"], size["height"])))
            return int(x - size["width"] / 2), int(y - size["height"] / 2)
        actions = ActionChains(self.driver)
        if key:
            actions.key_down(key)
        actions.move_to_element_with_offset(canvas, *place(start)).click_and_hold()
        actions.move_to_element_with_offset(canvas, *place(end)).release()
        if key:
            actions.key_up(key)
        actions.perform()

    def press(self, *keys, held=None, css=".strip canvas"):
        """Presses keys on a canvas, with Shift or Ctrl held down if wanted."""
        self.run("document.querySelector(arguments[0]).focus()", css)
        actions = ActionChains(self.driver)
        if held:
            actions.key_down(held)
        actions.send_keys(*keys)
        if held:
            actions.key_up(held)
        actions.perform()

    def keys(self, *keys):
        """Presses keys where the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def spoken(self, css=".strip canvas"):
        """What a screen reader says about the cursor of a canvas."""
        return self.driver.find_element("css selector", css).get_attribute("aria-valuetext") or ""

    def shoot(self, name):
        """A screenshot in light, in dark and as narrow as a phone, as outputs of the test."""
        for suffix, width, theme in (("", 1200, "light"), ("-dark", 1200, "dark"), ("-narrow", 400, "light")):
            self.driver.set_window_size(width, 1000)
            self.run("document.documentElement.dataset.theme = arguments[0]; document.dispatchEvent(new Event('sonde-theme')); "
                     "window.dispatchEvent(new Event('resize'))", theme)
            self.run("return new Promise((done) => setTimeout(done, 300))")
            self.driver.save_screenshot(os.path.join(SHOTS, f"{name}{suffix}.png"))
            if width == 400:
                check.equal(self.run("return document.documentElement.scrollWidth <= innerWidth"), True, f"{name} fits the width of a phone")
        self.driver.set_window_size(1200, 1000)
        self.run("document.documentElement.dataset.theme = 'light'; document.dispatchEvent(new Event('sonde-theme'))")
