"""A vLLM server on the loopback, on a CPU, as TRL wants it; its weights arrive as files (`transfer.py`)."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import transfer

OPTIONS = {
    "dtype": "float32",
    "max-model-len": "64",
    "weight-transfer-config": json.dumps({"backend": transfer.NAME}),
    "worker-extension-cls": "transfer.Files",
    "logprobs-mode": "processed_logprobs",
    "max-logprobs": "-1",
}
ENDS_WITHIN = 60


@contextmanager
def server(model: str) -> Iterator[str]:
    """Its address. It is asked to end as from a terminal, so that its processes can end, too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        model,
    ]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    for name, value in OPTIONS.items():
        command += [f"--{name}", value]
    own = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(Path.cwd())}
    running = subprocess.Popen(command, env={**os.environ, **own})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(ENDS_WITHIN)


def generated(address: str) -> int:
    """Tokens that the server says it generated, as Prometheus reads it."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", text, re.M)
    return int(sum(map(float, found)))
