#!/usr/bin/env python3
"""As much of S3 as a shipper asks for: objects that are created once and read back, by requests with a key.

  objects.py PORT FOLDER
"""

import http.server
import pathlib
import sys
import urllib.parse

FOLDER = pathlib.Path(sys.argv[2])


class Objects(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def place(self):
        return FOLDER / urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/")

    def has_key(self):
        return self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 Credential=TESTED/")

    def do_GET(self):
        if not self.has_key():
            return self.answer(403)
        place = self.place()
        self.answer(200, place.read_bytes()) if place.is_file() else self.answer(404)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        place = self.place()
        if not self.has_key():
            return self.answer(403)
        if self.headers.get("If-None-Match") != "*" or place.exists():
            return self.answer(412)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body)
        self.answer(200)

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", self.date_time_string())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Objects).serve_forever()
