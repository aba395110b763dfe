# SPDX-License-Identifier: Apache-2.0
"""servers.py NGINX: a web server under load. Every answer must be whole, reload and quit must work, and the error log must be empty."""

import concurrent.futures
import hashlib
import http.client
import os
import pathlib
import socket
import subprocess
import sys
import time

REQUESTS, CLIENTS, WAIT_S = 400, 8, 120
CONFIG = """
worker_processes 2; pid {here}/pid; error_log {here}/error.log warn; daemon on; user root;
events {{ worker_connections 256; }}
http {{ access_log {here}/access.log; client_body_temp_path {here}/t; proxy_temp_path {here}/t; fastcgi_temp_path {here}/t; uwsgi_temp_path {here}/t;
  scgi_temp_path {here}/t; gzip on; gzip_min_length 1; gzip_types *; sendfile on;
  log_not_found off;
  server {{ listen 127.0.0.1:{port}; root {here}/www; location /proxy/ {{ proxy_pass http://127.0.0.1:{port}/; }} }} }}
"""


def client(port):
    """Sends requests over one connection. Returns the distinct answers."""
    found = set()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    for n in range(REQUESTS):
        path = ("/big", "/small", "/proxy/small", "/missing")[n % 4]
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        found.add((path, answer.status, len(body) if answer.status == 404 else hashlib.sha256(body).hexdigest()))
    return found


def workers(pid):
    return set(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def wait_for_new_workers(pid, old):
    """Waits for the end of the old workers: an old worker may take a connection and end after its first request."""
    end = time.monotonic() + WAIT_S
    while old & workers(pid) and time.monotonic() < end:
        time.sleep(0.02)


def main(nginx):
    here = pathlib.Path.cwd()
    (here / "www").mkdir()
    (here / "www/big").write_bytes(bytes(range(256)) * 4096)
    (here / "www/small").write_text("small\n")
    for path in (*here.parents, here, here / "www"):
        if path.owner() == here.owner() and str(path).startswith("/tmp/"):
            os.chmod(path, 0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (here / "conf").write_text(CONFIG.format(here=here, port=port))
    started = subprocess.run([nginx, "-c", str(here / "conf"), "-e", str(here / "error.log")], timeout=WAIT_S)
    print("started", started.returncode)
    pid = int((here / "pid").read_text()) if started.returncode == 0 else None
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        found = set().union(*pool.map(client, [port] * CLIENTS))
    print(*sorted(map(str, found)), sep="\n")
    old = workers(pid)
    print("reloaded", subprocess.run([nginx, "-c", str(here / "conf"), "-e", str(here / "error.log"), "-s", "reload"], timeout=WAIT_S).returncode)
    wait_for_new_workers(pid, old)
    print(len(client(port)))
    print("ended", subprocess.run([nginx, "-c", str(here / "conf"), "-e", str(here / "error.log"), "-s", "quit"], timeout=WAIT_S).returncode)
    end = time.monotonic() + WAIT_S
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.05)
    print("gone", not os.path.exists(f"/proc/{pid}"))
    print("log", [line for line in (here / "error.log").read_text().splitlines() if "[notice]" not in line])
    print(sum(1 for _ in open(here / "access.log")))


if __name__ == "__main__":
    main(sys.argv[1])
