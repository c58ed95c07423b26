#!/usr/bin/env python3
"""A web server on this machine that fails in the ways mirrors do: for fetch_mnist_test.sh.

usage: flaky_server.py FOLDER PORT_FILE LOG_FILE

Serves FOLDER below each of these paths, on a free port that it writes to PORT_FILE:
  /good/     as it should be, with ranges
  /cut/      closes the connection after 20,000 bytes of each answer; with ranges
  /once/     closes the connection after 20,000 bytes of the first answer for a file; without ranges
  /stuck/    as /cut/, but a second time there comes nothing at all
  /wrong/    bytes of the right number that are not the file's
  /missing/  404;  /broken/  503
Each request is a line of LOG_FILE: its path, and the range that was asked for or "-".
"""
import http.server
import os
import sys

folder, port_file, log_file = sys.argv[1:]
CUT = 20000
seen = set()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range", "-")
        with open(log_file, "a") as log:
            log.write(f"{self.path} {wanted}\n")
        _, kind, name = self.path.split("/", 2)
        if kind in ("missing", "broken"):
            return self.send_error(404 if kind == "missing" else 503)
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        if kind == "wrong":
            content = bytes(len(content))
        start = 0
        if wanted != "-" and kind != "once":
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            if start >= len(content):
                return self.send_error(416)
        rest = content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if kind == "cut":
            rest = rest[:CUT]
        elif kind == "once" and name not in seen:
            rest = rest[:CUT]
        elif kind == "stuck":
            rest = b"" if start else rest[:CUT]
        seen.add(name)
        self.wfile.write(rest)

    def log_message(self, *_):
        pass


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    with open(port_file + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()
