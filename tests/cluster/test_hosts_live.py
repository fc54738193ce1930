"""Two real hosts, as far as a kernel can tell: names, networks and clocks of their own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hosts import Hosts, wrong_wall_clock

import cutaway
from cutaway.cluster.gather import bring, gather_here
from cutaway.cluster.move import move
from cutaway.commands import main
from cutaway.record.storage import on_network
from cutaway.trace.writer import RunWriter

AHEAD = 5000  # seconds

SERVER = """
import socket, time
listener = socket.create_server(("", 5005))
print("ready", flush=True)
connection, _ = listener.accept()
while data := connection.recv(65536):
    time.sleep(0.002)
    connection.sendall(data)
"""
CLIENT = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5005))
until = time.monotonic() + 12
while time.monotonic() < until:
    connection.sendall(b"x" * 1000)
    connection.recv(65536)
"""


def test_two_hosts_are_one_run_on_one_clock(tmp_path: Path) -> None:
    # How well traffic bounds the clocks depends on when each host looks at its connection; what is claimed must be true in any case.
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        run = talk(folder)
        assert {process.host for process in run.trace.processes} == {"near", "far"}
        # The far host is up longest, so its clock is the one all others are moved to. The two differ by what the test set.
        near = run.trace.hosts["near"]
        if near.error_ns is not None:
            assert abs(near.shift_ns - AHEAD * 1_000_000_000) <= near.error_ns
            if near.error_ns < 3e9:
                break
    counted = {p.host: len(p.log.links) for p in run.trace.processes}
    assert near.error_ns is not None and near.error_ns < 3e9, (near, counted)
    client = next(row for row in run.processes() if row["name"] == "near: client")
    server = next(row for row in run.processes() if row["name"] == "far: server")
    waits = [
        row
        for row in run.waits()
        if row["process"] == client["process"] and row["on"].startswith("tcp:")
    ]
    assert waits[0]["for_process"] == server["process"]
    assert server["start_ns"] < client["start_ns"] + near.error_ns


def talk(folder: Path) -> cutaway.Run:
    """A client on one host and a server on the other, whose wall clock is wrong by three seconds."""
    (folder / "server.py").write_text(SERVER)
    (folder / "client.py").write_text(CLIENT)
    path = folder / "run.cutaway"
    env = {"CUTAWAY": f"{path}?local={folder}/local/run"}
    wrong = {**env, **wrong_wall_clock(folder, seconds=3)}
    with Hosts(near=0, far=AHEAD) as hosts:
        server = hosts.start("far", sys.executable, "server.py", cwd=folder, env=wrong)
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        hosts.run(
            "near",
            sys.executable,
            "client.py",
            hosts.addresses["far"],
            cwd=folder,
            env=env,
        )
        server.wait(timeout=60)
        arrive(path, processes=2)
    return cutaway.open(path)


def arrive(path: Path, processes: int) -> None:
    """Waits until the movers have brought everything, and are gone."""
    until = time.monotonic() + 120
    while (path.parent / "local" / "run").exists():
        assert time.monotonic() < until, list((path.parent / "local").rglob("*"))
        time.sleep(0.2)
    assert len(list(path.glob("host-*/p*-*"))) == processes


def test_a_killed_process_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, signal, time\ntime.sleep(0.1)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "run.cutaway"
    text = f"{path}?local={tmp_path}/local/run&mover=0"
    path.mkdir()
    os.spawnve(
        os.P_WAIT,
        sys.executable,
        [sys.executable, str(tmp_path / "train.py")],
        {**os.environ, "CUTAWAY": text},
    )
    assert not list(path.glob("host-*"))
    assert gather_here(path, tmp_path / "local" / "run")
    (process,) = cutaway.open(path).processes()
    assert process["lost"] == 0 and process["events"] > 0
    assert not (tmp_path / "local" / "run").exists()


def test_a_process_that_has_only_begun_is_left_alone(tmp_path: Path) -> None:
    process = tmp_path / "local" / "p1-1"
    process.mkdir(parents=True)
    assert move(process.parent, tmp_path / "run.cutaway") and process.is_dir()
    (process / "log.jsonl").touch()
    assert move(process.parent, tmp_path / "run.cutaway") and process.is_dir()
    os.utime(process, (0, 0))
    assert not move(process.parent, tmp_path / "run.cutaway") and not process.exists()


def test_gathering_again_keeps_what_a_killed_process_left(tmp_path: Path) -> None:
    run, process = tmp_path / "run.cutaway", tmp_path / "local" / "p1-1"
    process.mkdir(parents=True)
    (process / "log.jsonl").write_text(
        '00000000 {"k":"process","pid":1,"os_start":"another process"}\n'
    )
    (process / "live-0-0.seg").write_bytes(b"its last events")
    for _ in range(2):
        bring(run, lambda function, *args: function(process.parent, *args))
        assert not process.exists()
        assert (run / "p1-1" / "live-0-0.seg").read_bytes() == b"its last events"


def test_gathering_says_what_it_did_or_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunWriter(tmp_path / "run.cutaway").close()
    assert main(["gather", str(tmp_path / "run.cutaway"), "--ray", ""]) == 0
    assert "now has every part that can be reached" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    assert main(["gather", str(tmp_path / "other"), "--ray", ""]) == 1
    assert "is not a Cutaway run" in capsys.readouterr().err


def test_network_folders_are_known_by_their_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\ntmpfs /data/fast tmpfs rw 0 0\n"
    )
    assert on_network("/data/runs/a.cutaway", str(mounts))
    assert not on_network("/data/fast/a.cutaway", str(mounts))
    assert not on_network("/database/a.cutaway", str(mounts))
