"""A real S3 server (moto) with an empty bucket `tables`, which can kill whoever writes to it.

bucket.py: prints its port, then answers each line that it reads:
    put FOLDER PREFIX    the objects of a folder are there; how many
    get PREFIX FOLDER    the objects below a prefix are in that folder; how many
    kill PID N           kills that process when its N-th write is done, before it is told so; 0 0: nobody
"""

import logging
import os
import pathlib
import signal
import sys
import threading

os.environ.update(
    AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_DEFAULT_REGION="us-east-1"
)
logging.getLogger("werkzeug").setLevel(logging.ERROR)

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class Killing:
    def __init__(self, application):
        self.application, self.process, self.writes = application, None, 0
        self.turn = threading.Lock()

    def __call__(self, environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD") or self.process is None:
            return self.application(environ, start_response)
        with self.turn:
            answer = self.application(environ, start_response)
            self.writes -= 1
            if self.writes == 0:
                os.kill(self.process, signal.SIGKILL)
                self.process = None
            return answer


def put(client, folder, prefix):
    files = sorted(path for path in pathlib.Path(folder).rglob("*.parquet"))
    for file in files:
        key = f"{prefix}/{file.relative_to(folder)}"
        client.put_object(Bucket="tables", Key=key, Body=file.read_bytes())
    return len(files)


def get(client, prefix, folder):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="tables", Prefix=prefix + "/")
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    for key in keys:
        path = pathlib.Path(folder, key.removeprefix(prefix + "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get_object(Bucket="tables", Key=key)["Body"].read())
    return len(keys)


def main():
    killing = Killing(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, killing, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.port}")
    client.create_bucket(Bucket="tables")
    print(server.port, flush=True)
    for line in sys.stdin:
        word, first, second = line.split()
        if word == "kill":
            killing.process, killing.writes = int(first) or None, int(second)
            print(second, flush=True)
        else:
            print({"put": put, "get": get}[word](client, first, second), flush=True)


main()
