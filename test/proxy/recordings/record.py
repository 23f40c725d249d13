"""Records what a real model server sends, byte for byte, so that the proxy can be tried with it where the server cannot run.

    python test/proxy/recordings/record.py transformers --model models/lab-nano --out test/proxy/recordings/fixtures
    python test/proxy/recordings/record.py vllm --model models/lab-nano --out test/proxy/recordings/fixtures
    python test/proxy/recordings/record.py url --url http://127.0.0.1:8000 --model NAME --out FOLDER --name NAME [--key KEY]

The first two start the server themselves, and kill it in the middle of the last stream. Python's own library alone; the
server's packages have to be there (pip install 'transformers[serving]' peft, or vllm). One JSON file comes out, named after
the server and its version.
"""

import argparse
import base64
import http.client
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

from importlib import metadata

MESSAGES = [{"role": "system", "content": "Reverse the text."}, {"role": "user", "content": "abcdef"}]


def requests(model, server):
    """The exchanges, in order: a name, method, path, body."""
    chat = {"model": model, "messages": MESSAGES, "max_tokens": 24, "temperature": 0}
    text = {"model": model, "prompt": "abcdef", "max_tokens": 8, "temperature": 0}
    post = lambda name, path, body: (name, "POST", path, body)
    return [
        ("health", "GET", "/health", None),
        ("models", "GET", "/v1/models", None),
        ("metrics", "GET", "/metrics", None),
        post("chat", "/v1/chat/completions", chat),
        post("chat streamed", "/v1/chat/completions", {**chat, "stream": True}),
        post("chat streamed with usage", "/v1/chat/completions", {**chat, "stream": True, "stream_options": {"include_usage": True}}),
        post("chat with logprobs", "/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 2}),
        post("chat with token ids", "/v1/chat/completions", {**chat, "return_token_ids": True}),
        post("completion", "/v1/completions", text),
        post("completion streamed", "/v1/completions", {**text, "stream": True}),
        post("unknown model", "/v1/chat/completions", {**chat, "model": "no/such-model"}),
        post("no messages", "/v1/chat/completions", {"model": model, "max_tokens": 4}),
        post("messages of a wrong type", "/v1/chat/completions", {**chat, "messages": "abc"}),
        post("tokenize", "/tokenize", {"model": model, "prompt": "abcdef"}),
        post("embeddings", "/v1/embeddings", {"model": model, "input": "abcdef"}),
        post("unknown adapter", "/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "/no/such/folder"}),
        post("adapter to unload", "/v1/unload_lora_adapter", {"lora_name": "x"}),
        # transformers refuses fields that it does not know.
        post("cut", "/v1/chat/completions", {**chat, "max_tokens": 200, "stream": True, **({"ignore_eos": True} if server == "vllm" else {})}),
    ]


def exchange(host, port, method, path, body, key=None, kill=None):
    """One request and its answer as it came, with the time of each piece in ms. `kill` ends the server after the first piece."""
    connection = http.client.HTTPConnection(host, port, timeout=120)
    data = None if body is None else json.dumps(body)
    headers = {"x-request-id": "recorded-1", **({"content-type": "application/json"} if data else {})}
    if key:
        headers["authorization"] = f"Bearer {key}"
    began = time.monotonic()
    connection.request(method, path, body=data, headers=headers)
    response = connection.getresponse()
    pieces, broken = [], None
    try:
        while True:
            piece = response.read1(65536)
            if not piece:
                break
            pieces.append({"ms": round((time.monotonic() - began) * 1000), "base64": base64.b64encode(piece).decode()})
            if kill is not None:
                kill()
                kill = None
    except (http.client.HTTPException, OSError) as error:
        broken = type(error).__name__
    connection.close()
    return {
        "request": {"method": method, "path": path, "body": data},
        "response": {"status": response.status, "headers": response.getheaders(), "pieces": pieces, "broken": broken},
    }


def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def command(server, model, port):
    if server == "transformers":
        start = "from transformers.cli.transformers import app; app()"
        return [sys.executable, "-c", start, "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", model,
            "--host", "127.0.0.1", "--port", str(port), "--enable-lora", "--max-model-len", "256"]


def wait(host, port, process, seconds=300):
    for _ in range(seconds * 2):
        if process is not None and process.poll() is not None:
            sys.exit(f"The server ended with {process.returncode} before it answered.")
        try:
            connection = http.client.HTTPConnection(host, port, timeout=2)
            connection.request("GET", "/health")
            if connection.getresponse().status < 500:
                return
        except OSError:
            pass
        time.sleep(0.5)
    sys.exit(f"The server did not answer within {seconds} s.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=["transformers", "vllm", "url"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8123")
    parser.add_argument("--name", default="server")
    parser.add_argument("--key", help="sent as Authorization: Bearer; never recorded")
    given = parser.parse_args()
    url = urllib.parse.urlparse(given.url)
    process = None
    if given.server != "url":
        environment = {**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "HF_HUB_OFFLINE": "1"}
        # transformers serve reads the list of its models from a cache that has to be there.
        environment["HF_HOME"] = tempfile.mkdtemp()
        os.makedirs(os.path.join(environment["HF_HOME"], "hub"), exist_ok=True)
        process = subprocess.Popen(command(given.server, given.model, url.port), env=environment, start_new_session=True)
    try:
        wait(url.hostname, url.port, process)
        end = (lambda: os.killpg(process.pid, signal.SIGKILL)) if process else None
        exchanges = {}
        for name, method, path, body in requests(given.model, given.server):
            if name == "cut" and end is None:
                continue
            exchanges[name] = exchange(url.hostname, url.port, method, path, body, given.key, end if name == "cut" else None)
            print(f"{name}: {exchanges[name]['response']['status']}, {len(exchanges[name]['response']['pieces'])} pieces", file=sys.stderr)
    finally:
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    package = given.server if given.server != "url" else given.name
    recording = {
        "server": package,
        "version": version(package),
        "model": given.model,
        "recorded": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ["torch", "fastapi", "uvicorn", "starlette"]},
        "exchanges": exchanges,
    }
    file = os.path.join(given.out, f"{package}-{recording['version'] or recording['recorded']}.json")
    with open(file, "w") as out:
        json.dump(recording, out, indent=1)
        out.write("\n")
    print(file)


main()
