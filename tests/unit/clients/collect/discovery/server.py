# SPDX-License-Identifier: Apache-2.0
"""An HTTP server of service discovery: server.py FILE prints its port. /hosts is FILE; the other paths misbehave."""

import http.server
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/redirect/"):
            left = int(self.path.rpartition("/")[2])
            self.answer(302, b"", f"/redirect/{left - 1}" if left > 1 else "/hosts")
        elif self.path == "/to-file":
            self.answer(302, b"", f"file://{sys.argv[1]}")
        elif self.path == "/large":
            self.answer(200, b" " * (8 << 20) + b"[]")
        elif self.path == "/slow":
            time.sleep(60)
        elif self.path == "/hosts":
            with open(sys.argv[1], "rb") as file:
                self.answer(200, file.read())
        else:
            self.answer(503, b"[]")

    def answer(self, status, body, location=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
