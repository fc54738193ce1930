"""Hosts for tests: network namespaces with a name, an address and a monotonic clock of their own, joined by a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

WALL_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, t);
  const char* wrong = getenv("WALL_CLOCK_WRONG_BY");
  if (clock == CLOCK_REALTIME && wrong) t->tv_sec += atoi(wrong);
  return status;
}
"""


def wrong_wall_clock(folder: Path, seconds: int) -> dict[str, str]:
    """Variables for a program whose wall clock is wrong by so much."""
    source, library = folder / "wall.c", folder / "wall.so"
    source.write_text(WALL_CLOCK)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library), "WALL_CLOCK_WRONG_BY": str(seconds)}


class Hosts:
    """Hosts by name, with the seconds by which each one's monotonic clock is ahead of the machine's."""

    def __init__(self, **ahead: int) -> None:
        self.ahead = ahead
        self.tag = f"cut{os.getpid() % 10000}"
        self.addresses = {
            name: f"10.213.7.{number}" for number, name in enumerate(ahead, 1)
        }
        self.running: list[subprocess.Popen[str]] = []
        self.folders: list[str] = []

    def __enter__(self) -> Hosts:
        bridge = f"{self.tag}br"
        self._ip(f"netns add {self.tag}-hub")
        self._ip(f"link add {bridge} type bridge", "hub")
        self._ip(f"link set {bridge} up", "hub")
        for name, address in self.addresses.items():
            self._ip(f"netns add {self.tag}-{name}")
            self._ip(
                f"link add {name}0 netns {self.tag}-hub type veth peer name eth0 netns {self.tag}-{name}"
            )
            self._ip(f"link set {name}0 master {bridge} up", "hub")
            self._ip(f"addr add {address}/24 dev eth0", name)
            self._ip("link set eth0 up", name)
            self._ip("link set lo up", name)
        return self

    def start(
        self,
        host: str,
        *command: object,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Starts a command on a host."""
        # nsenter, not `ip netns exec`: that one changes mounts, which a chroot does not allow.
        enter = [*self._inside(host), "unshare", "--uts", "--fork", "--kill-child"]
        ahead = (
            ["--time", "--monotonic", str(self.ahead[host])] if self.ahead[host] else []
        )
        named = ["sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", host]
        # There is no name server to answer, so nobody waits long for one.
        settings = {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}
        environment = {**os.environ, **settings, **(env or {})}
        child = subprocess.Popen(
            [*enter, *ahead, *named, *map(str, command)],
            env=environment, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )  # fmt: skip
        self.running.append(child)
        return child

    def run(
        self, host: str, *command: object, fails: bool = False, **options: Any
    ) -> str:
        """Runs a command on a host to its end; returns what it printed."""
        child = self.start(host, *command, **options)
        out, err = child.communicate(timeout=400)
        assert (child.returncode != 0) == fails, (command, child.returncode, out, err)
        return out + err

    def start_daemon(self, host: str, log: Path, *command: object) -> None:
        """Starts something that runs until the test ends, with its own folder for temporary files and no pipes to us. Ray gives
        up on a busy machine after 30 s; then it is started again."""
        own = tempfile.mkdtemp(prefix=f"{host}-")  # short: sockets lie in it
        self.folders.append(own)
        env = {"RAY_TMPDIR": own, "RAY_AUTH_MODE": "disabled"}
        again = ["sh", "-c", 'until "$@"; do sleep 1; done', "sh"]
        with log.open("a") as out:
            self.start(host, *again, *command, env=env, stdout=out, stderr=out)

    def wait_for(self, address: str) -> None:
        """Until somebody listens there."""
        name, _, port = address.rpartition(":")
        code = f"import socket; socket.create_connection(({name!r}, {port}), 2)"
        self._until(lambda: self.start("head", sys.executable, "-c", code).wait() == 0)

    def wait_for_nodes(self, address: str, count: int, env: dict[str, str]) -> None:
        """Until a Ray cluster has so many living nodes."""
        code = (
            f"import ray, sys; ray.init(address={address!r}, log_to_driver=False, logging_level=40);"
            f"sys.exit(sum(n['Alive'] for n in ray.nodes()) != {count})"
        )
        self._until(
            lambda: self.start("head", sys.executable, "-c", code, env=env).wait() == 0
        )

    def kill(self, host: str) -> None:
        """Ends everything on a host at once, as a lost power supply would."""
        for pid in self._ip(f"netns pids {self.tag}-{host}").split():
            subprocess.run(["kill", "-9", pid], check=False)

    def _until(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + 240
        while not done():
            assert time.monotonic() < until
            time.sleep(1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self.running:
            child.kill()
        for name in [*self.addresses, "hub"]:
            self.kill(name)
            self._ip(f"netns del {self.tag}-{name}")
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _inside(self, host: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.tag}-{host}"]

    def _ip(self, words: str, host: str = "") -> str:
        inside = self._inside(host) if host else []
        return subprocess.run(
            [*inside, "ip", *words.split()], check=True, capture_output=True, text=True
        ).stdout
