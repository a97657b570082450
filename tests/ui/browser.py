# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium for tests, and a small server for pages with chosen headers."""

import http.server
import os
import shutil
import sys
import tempfile
import threading

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

# A process for each site and its services takes a third of a test's CPU time.
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
         "--disable-features=SitePerProcess,Translate,OptimizationHints,MediaRouter"]


def skip(why):
    print(f"SKIP: {os.path.basename(sys.argv[0])}: {why}")
    sys.exit(0)


class Browser:
    """A Chromium with its own profile folder, which close() removes."""

    def __init__(self, width=1200, height=800, dark=False):
        if webdriver is None:
            skip("no python3-selenium")
        if not (shutil.which("chromium") and os.path.exists("/usr/bin/chromedriver")):
            skip("no chromium or chromedriver")
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        # Chromium keeps settings and crash dumps under HOME, which a test's sandbox does not have.
        environment = dict(os.environ, HOME=self.folder, XDG_CONFIG_HOME=self.folder, XDG_CACHE_HOME=self.folder)
        options = webdriver.ChromeOptions()
        for flag in QUIET + [f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"]:
            options.add_argument(flag)
        if dark:
            options.add_argument("--blink-settings=preferredColorScheme=0")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", env=environment), options=options)

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def errors(self):
        """Console messages since the last call, without those about the favicon."""
        return [entry["message"] for entry in self.driver.get_log("browser") if "favicon" not in entry["message"]]


class Server:
    """Serves {path: (headers, bytes)} on any port and counts the requests."""

    def __init__(self, pages):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # keeps connections, as the gateway does

            def do_GET(self):
                path = self.path.split("?")[0]
                asked.append(path)
                if path not in pages:
                    self.send_error(404)
                    return
                headers, body = pages[path]
                self.send_response(200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
