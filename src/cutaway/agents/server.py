"""A Model Context Protocol server over stdio: five tools, each one command of ours in a process of its own.

A process of its own, so that a large run, a slow query or a program that crashes cannot take the server along, and nothing but the
protocol reaches its stdout. Paths are confined to one folder (`folder.py`). Nothing is written unless recording is allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from cutaway.agents.answer import clean_text
from cutaway.agents.folder import Folder
from cutaway.errors import CutawayError
from cutaway.record.options import VARIABLE
from cutaway.reports import brief
from cutaway.version import __version__

READ_SECONDS = 300
MOST_SECONDS = 3600
MEMORY = "512MB"
INSTRUCTIONS = (
    "Cutaway profiles reinforcement-learning training. Record a run, read `verdict`, change one thing, record again, and let `diff` "
    "say whether it helped. If `certain` is no, deal with the warnings first. `explain` shows one table, `query` answers SQL."
)
View = Literal["process", "operation", "layer", "line", "function", "callsite", "kernel", "counter", "transition", "memory",
               "device-memory", "wait", "rollout", "time", "slowest", "why"]  # fmt: skip
Run = Annotated[
    str, Field(description="folder NAME.cutaway, relative to the folder of the server")
]
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RECORDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, open_world_hint=True
)


def server(folder: Folder, recording: bool) -> MCPServer[Any]:
    """The server, ready to run."""
    made: MCPServer[Any] = MCPServer(
        "cutaway", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(folder, recording)
    made.add_tool(tools.record, annotations=RECORDS, structured_output=False)
    for tool in (tools.verdict, tools.explain, tools.query, tools.diff):
        made.add_tool(tool, annotations=READS, structured_output=False)
    return made


@dataclass(frozen=True)
class Tools:
    """The five tools. Their docstrings are what a client reads."""

    folder: Folder
    recording: bool

    async def record(
        self,
        command: Annotated[
            list[str],
            Field(
                description='a script in the folder and its arguments, or "-m", MODULE, …'
            ),
        ],
        name: Annotated[str, Field(description="of the new run, without .cutaway")],
        seconds: Annotated[
            int,
            Field(description="end the program after so long", ge=1, le=MOST_SECONDS),
        ] = 600,
    ) -> CallToolResult:
        """Run a Python program and record it. Returns the verdict. Runs at least 5 iterations, better 20, of the training loop."""
        if not self.recording:
            return _failed(
                "recording is not allowed; ask the user to start the server with --allow-record."
            )
        try:
            path = self.folder.new(name)
            words = self._program(command)
        except CutawayError as error:
            return _failed(str(error))
        said, code = await self._cutaway(
            ["run", "-q", "-o", str(path), *words], seconds, stop=signal.SIGINT
        )
        if not (path / "run.json").is_file():
            return _failed(
                said or f"the program ended with {code} and nothing was recorded"
            )
        result = await self.verdict(path.name)
        ended = f"The program ended with {code}. Its last output:\n{said[-2000:]}"
        return CallToolResult(
            content=[*result.content, TextContent(type="text", text=clean_text(ended))],
            structured_content=result.structured_content,
            is_error=result.is_error,
        )

    async def verdict(self, run: Run) -> CallToolResult:
        """What limits a run, what to try and what that could gain, whether to trust it, the lines by time, and what to run next."""
        try:
            text = await self._shown(
                ["show", str(self.folder.run(run)), "--brief", "--json"]
            )
        except CutawayError as error:
            return _failed(str(error))
        found = json.loads(text)
        lines = "\n".join(brief.lines(found))
        return CallToolResult(
            content=[TextContent(type="text", text=lines)], structured_content=found
        )

    async def explain(
        self, run: Run, by: Annotated[View, Field(description="which table")] = "line"
    ) -> CallToolResult:
        """One table of a run: where the time goes by line, function, operation, process, wait, …; which lines keep memory;
        tokens, queue and age of samples of a language model by iteration (rollout); over time; the slowest iterations; or why
        operations have their names."""
        flags = {"time": ["--over-time"], "slowest": ["--slowest"], "why": ["--why"]}
        return await self._answer(
            lambda: ["show", str(self.folder.run(run)), *flags.get(by, ["--by", by])]
        )

    async def query(
        self,
        run: Run,
        sql: Annotated[
            str,
            Field(
                description="one SELECT, e.g. SELECT operation, sum(ns) FROM cells GROUP BY 1"
            ),
        ],
    ) -> CallToolResult:
        """SQL (DuckDB) over the tables processes, threads, operations, cells, transitions, kernels, samples, iterations, waits,
        callsites. SHOW TABLES and DESCRIBE work. No files can be read or written."""
        # A blank in front: SQL that begins with a comment is not an option.
        return await self._answer(
            lambda: [
                "query",
                str(self.folder.run(run)),
                f" {sql}",
                "--csv",
                "--memory",
                MEMORY,
            ]
        )

    async def diff(
        self,
        before: Annotated[
            str, Field(description="the run before the change, or a folder of runs")
        ],
        after: Annotated[
            str, Field(description="the run after it, or a folder of runs")
        ],
    ) -> CallToolResult:
        """What changed between two runs, with 95 % intervals: did it help, beyond chance?"""
        return await self._answer(
            lambda: ["diff", str(self.folder.run(before)), str(self.folder.run(after))]
        )

    async def _answer(self, words: Any) -> CallToolResult:
        try:
            text = await self._shown(words())
        except CutawayError as error:
            return _failed(str(error))
        return CallToolResult(content=[TextContent(type="text", text=clean_text(text))])

    async def _shown(self, words: list[str]) -> str:
        """What a command of ours prints; its one sentence if it fails."""
        text, code = await self._cutaway(words, READ_SECONDS)
        if code is None:
            raise CutawayError(f"this took longer than {READ_SECONDS} s; ask for less.")
        if code != 0:
            raise CutawayError(
                text.strip().removeprefix("cutaway: ")
                or f"it failed with exit code {code}"
            )
        return text

    async def _cutaway(
        self, words: list[str], seconds: float, stop: signal.Signals = signal.SIGKILL
    ) -> tuple[str, int | None]:
        """Output and exit code of a command, which has no input; None if it had to be stopped."""
        environment = {
            key: value for key, value in os.environ.items() if key != VARIABLE
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cutaway", *words,
            stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd=self.folder.root, env=environment, start_new_session=True,
        )  # fmt: skip
        reading = asyncio.ensure_future(process.communicate())
        try:
            out, _ = await asyncio.wait_for(asyncio.shield(reading), seconds)
            return out.decode(errors="replace"), process.returncode
        except asyncio.TimeoutError:
            await _end(process, stop)
            out, _ = await reading
            return out.decode(errors="replace"), None
        except asyncio.CancelledError:
            await _end(process, signal.SIGKILL)
            raise

    def _program(self, command: list[str]) -> list[str]:
        """A Python program that lies in the folder, as `cutaway run` wants it."""
        if not command:
            raise CutawayError(
                "there is nothing to run; give a script, or -m and a module."
            )
        if command[0] == "-m" and len(command) > 1:
            return command
        script = self.folder.inside(command[0])
        if not script.is_file() or script.suffix != ".py":
            raise CutawayError(
                f"{command[0]} is not a Python script in this folder; check the path."
            )
        return [str(script.relative_to(self.folder.root)), *command[1:]]


async def _end(process: Process, how: signal.Signals) -> None:
    """End a command and all it started; one that does not obey within ten seconds is killed."""
    for sign in (how, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            await asyncio.wait_for(process.wait(), 10)
            return
        except asyncio.TimeoutError:
            continue


def _failed(sentence: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=clean_text(sentence))], is_error=True
    )


def serve(folder: Path, recording: bool) -> None:
    """Serve until the client goes away."""
    server(Folder.at(folder), recording).run("stdio")
