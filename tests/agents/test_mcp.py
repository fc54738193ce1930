"""The server as a client sees it: the official client talks to a real `cutaway mcp` over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

import cutaway
from cutaway.analysis.query import query
from cutaway.commands import main
from cutaway.commands.show import BY
from cutaway.errors import CutawayError
from cutaway.reports.brief import schema
from reports.runs import crowd, single

SECRET = "the-secret-outside"
PROGRAM = """
import sys, time, zlib
import cutaway
data = bytes(range(256)) * 4000
for i in range(12):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        zlib.compress(data, 6)  # planted
print("trained", sys.argv[1:])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    inside = tmp_path / "runs"
    inside.mkdir()
    single(inside / "a.cutaway")
    crowd(inside / "b.cutaway", workers=4)
    return inside


def talk(folder: Path, speak: Callable[[Client], Awaitable[Any]], *flags: str) -> Any:
    """What a conversation with a server returns."""

    async def whole() -> Any:
        words = ["-m", "cutaway", "mcp", "--folder", str(folder), *flags]
        async with Client(
            StdioServerParameters(command=sys.executable, args=words)
        ) as client:
            return await speak(client)

    return asyncio.run(asyncio.wait_for(whole(), 120))


def call(folder: Path, tool: str, *flags: str, **arguments: Any) -> CallToolResult:
    found = talk(folder, lambda client: client.call_tool(tool, arguments), *flags)
    assert isinstance(found, CallToolResult)
    return found


def text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


def test_there_are_five_tools_and_four_only_read(folder: Path) -> None:
    tools = talk(folder, lambda client: client.list_tools()).tools
    reads = {tool.name: tool.annotations.read_only_hint for tool in tools}
    assert reads == {
        "record": False,
        "verdict": True,
        "explain": True,
        "query": True,
        "diff": True,
    }
    assert all(tool.description for tool in tools)


def test_the_verdict_is_the_brief_as_lines_and_as_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(folder, "verdict", run="a.cutaway")
    jsonschema.validate(result.structured_content, schema())
    assert "rule: simulation-bound" in text(
        result
    ) and "next: cutaway show a.cutaway" in text(result)
    assert main(["show", str(folder / "a.cutaway"), "--brief", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert result.structured_content["operations"] == printed["operations"]


def test_tables_queries_and_differences(folder: Path) -> None:
    assert "/train.py:70" in text(call(folder, "explain", run="a.cutaway", by="line"))
    assert "steps/s" in text(call(folder, "explain", run="a.cutaway", by="time"))
    sql = "-- a comment first\nSELECT sum(ns) AS ns FROM cells WHERE operation = 'simulation'"
    assert text(call(folder, "query", run="a.cutaway", sql=sql)).split() == [
        "ns",
        "1200000000",
    ]
    assert "per iteration" in text(
        call(folder, "diff", before="a.cutaway", after="b.cutaway")
    )


def test_a_run_may_be_named_as_it_was_recorded_and_every_table_can_be_asked_for(
    folder: Path,
) -> None:
    assert text(call(folder, "verdict", run="a")).startswith("schema: cutaway.brief")
    said = text(call(folder, "verdict", run="../secret"))
    assert "outside" in said and SECRET not in said
    found = talk(folder, lambda client: client.list_tools()).tools
    explain = next(tool for tool in found if tool.name == "explain")
    assert {*BY} <= set(explain.input_schema["properties"]["by"]["enum"])
    assert "Record with --memory" in text(call(folder, "explain", run="a", by="memory"))


def test_many_calls_in_one_conversation_and_an_error_in_between(folder: Path) -> None:
    async def speak(client: Client) -> list[bool | None]:
        names = ["a.cutaway", "no-such.cutaway", "b.cutaway"]
        return [
            (await client.call_tool("verdict", {"run": name})).is_error
            for name in names
        ]

    assert [bool(failed) for failed in talk(folder, speak)] == [False, True, False]


OUTSIDE = [
    "..",
    "../runs/../secret.txt",
    "/etc",
    "a.cutaway/../../",
    "out.cutaway",
    "ray://h:1/x",
    "x\0y",
]


def test_no_path_leads_outside(folder: Path) -> None:
    single(folder.parent / "other.cutaway")
    (folder / "out.cutaway").symlink_to(folder.parent / "other.cutaway")

    async def speak(client: Client) -> list[CallToolResult]:
        found = []
        for path in OUTSIDE:
            found.append(await client.call_tool("verdict", {"run": path}))
            found.append(
                await client.call_tool("diff", {"before": "a.cutaway", "after": path})
            )
            found.append(
                await client.call_tool("query", {"run": path, "sql": "SELECT 1"})
            )
        return found

    for result in talk(folder, speak):
        assert result.is_error and SECRET not in text(result)


def test_a_run_whose_files_lead_outside_is_refused(folder: Path) -> None:
    process = next((folder / "a.cutaway").glob("p*-*"))
    (process / "log.jsonl").rename(folder.parent / "log.jsonl")
    (process / "log.jsonl").symlink_to(folder.parent / "log.jsonl")
    result = call(folder, "verdict", run="a.cutaway")
    assert result.is_error and "a link to the outside" in text(result)


ESCAPES = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/written.csv'",
    "ATTACH '{folder}/written.db' AS other",
    "EXPORT DATABASE '{folder}/written'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA enable_external_access = true",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/written.csv'",
    "SELECT getenv('HOME')",
    "CREATE TABLE t AS SELECT 1",
    "SELECT * FROM parquet_scan('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
]


def test_a_query_reads_and_writes_no_file(folder: Path) -> None:
    names = {"secret": folder.parent / "secret.txt", "folder": folder}
    before = sorted(path.name for path in folder.rglob("*"))
    for sql in ESCAPES:
        with pytest.raises(CutawayError) as refused:
            query(cutaway.open(folder / "a.cutaway"), sql.format(**names))
        assert SECRET not in str(refused.value)

    async def speak(client: Client) -> list[CallToolResult]:
        asked = [
            {"run": "a.cutaway", "sql": sql.format(**names)} for sql in ESCAPES[:6:5]
        ]
        return [await client.call_tool("query", arguments) for arguments in asked]

    for result in talk(folder, speak):
        assert result.is_error and SECRET not in text(result)
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_recording_needs_permission(folder: Path) -> None:
    (folder / "train.py").write_text(PROGRAM)
    arguments = {"command": ["train.py"], "name": "new"}
    result = call(folder, "record", **arguments)
    assert (
        result.is_error
        and "--allow-record" in text(result)
        and not (folder / "new.cutaway").exists()
    )


def test_a_recorded_program_has_its_verdict_and_its_output(folder: Path) -> None:
    (folder / "train.py").write_text(PROGRAM)
    arguments = {"command": ["train.py", "--fast"], "name": "new"}
    result = call(folder, "record", "--allow-record", **arguments)
    said = text(result)
    assert (
        not result.is_error
        and "trained ['--fast']" in said
        and (folder / "new.cutaway").is_dir()
    )
    assert (
        result.structured_content["rates"]["ms_per_unit"] > 0
        and "schema: cutaway.brief/1" in said
    )


REFUSED: list[tuple[list[str], str]] = [
    (["../evil.py"], "x"), (["/bin/sh", "-c", "id"], "x"), (["train.py"], "../x"), (["train.py"], "a"), ([], "x"), (["-o"], "x"),
]  # fmt: skip


def test_what_cannot_be_recorded_is_said(folder: Path) -> None:
    (folder / "train.py").write_text(PROGRAM)
    (folder.parent / "evil.py").write_text("open('hacked', 'w')")

    async def speak(client: Client) -> list[CallToolResult]:
        asked = [{"command": command, "name": name} for command, name in REFUSED]
        return [await client.call_tool("record", arguments) for arguments in asked]

    assert all(result.is_error for result in talk(folder, speak, "--allow-record"))
    assert not (folder / "hacked").exists()
    assert (
        not (folder / "x.cutaway").exists()
        and not (folder.parent / "x.cutaway").exists()
    )


def test_a_program_that_does_not_end_is_ended(folder: Path) -> None:
    (folder / "long.py").write_text(PROGRAM + "\nimport time\ntime.sleep(1000)\n")
    result = call(
        folder, "record", "--allow-record", command=["long.py"], name="new", seconds=4
    )
    assert not result.is_error and "schema: cutaway.brief/1" in text(result)
