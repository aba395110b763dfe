# SPDX-License-Identifier: Apache-2.0
"""Upload servers on loopback ports: nginx with WebDAV, and a server that misbehaves on demand and can check S3 signatures."""

import contextlib
import hashlib
import hmac
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse

os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"  # for curl


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nginx_reason():
    """Why this machine has no nginx with WebDAV; None if it has."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if not nginx:
        return "no nginx on this machine"
    version = subprocess.run([nginx, "-V"], capture_output=True, text=True).stderr
    return None if "http_dav_module" in version else "nginx is built without http_dav_module"


@contextlib.contextmanager
def nginx(folder, password=None):
    """nginx that stores PUT requests in folder/files. Yields its port and access log. password: a user:{PLAIN}... line for basic auth."""
    folder = pathlib.Path(folder)
    (folder / "files").mkdir(parents=True)
    port = free_port()
    protect = ""
    if password:
        (folder / "users").write_text(password + "\n")
        protect = f"auth_basic cprof; auth_basic_user_file {folder}/users;"
    (folder / "conf").write_text(f"""
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{}}
http {{
  access_log {folder}/access; client_body_temp_path {folder}/body; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; client_max_body_size 0;
  server {{ listen 127.0.0.1:{port}; root {folder}/files; {protect}
            location / {{ dav_methods PUT DELETE; create_full_put_path on; }} }}
}}
""")
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    server = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "conf")], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.02)
        yield port, folder / "access"
    finally:
        server.terminate()
        server.wait()


class Server:
    """Answers requests with `answers` in turn, then always with the last: a status, "cut" (closes in the middle) or "slow" (never answers).
    `methods` lists the methods of all requests. `files` holds the whole bodies by path."""

    def __init__(self, *answers, check=None):
        self.answers, self.check = list(answers) or [201], check
        self.files, self.methods, self.headers, self.faults = {}, [], [], []
        self.over = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                outer.handle(self)

            do_PUT = do_GET = do_POST = do_DELETE = do_HEAD = do_OPTIONS = handle_any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def handle(self, request):
        self.methods.append(request.command)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        size = int(request.headers.get("Content-Length", 0))
        if answer == "cut":
            request.rfile.read(min(size, 1000))
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
            return
        body = request.rfile.read(size)
        if answer == "slow":
            self.over.wait(60)
            return
        if self.check:
            fault = self.check(request)
            if fault:
                self.faults.append(fault)
                answer = 403
        if answer < 300:
            self.files[urllib.parse.unquote(request.path)] = body
        request.send_response(answer)
        request.send_header("Content-Length", "0")
        request.end_headers()


def signature_fault(request, key, secret, region, token=None):
    """The fault in a request's AWS Signature Version 4; None if it is right. Computes the signature again from the received request, as in
    Amazon's guide, "Signature calculations for the Authorization header"."""
    given = request.headers.get("Authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        return "no signature"
    parts = dict(part.strip().split("=", 1) for part in given[len("AWS4-HMAC-SHA256 "):].split(","))
    date = request.headers["X-Amz-Date"]
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    if parts["Credential"] != f"{key}/{scope}":
        return f"credential {parts['Credential']}"
    names = parts["SignedHeaders"].split(";")
    if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names) or (token and "x-amz-security-token" not in names):
        return f"signed are {names}"
    if token and request.headers.get("x-amz-security-token") != token:
        return "another token"
    path, _, query = request.path.partition("?")
    canonical = "\n".join([request.command, path, query, *(f"{name}:{request.headers[name].strip()}" for name in names), "",
                           ";".join(names), request.headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    sign = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        sign = hmac.new(sign, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(sign, text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, parts["Signature"]) else "the signature does not match"
