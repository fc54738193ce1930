"""The native parts of the readers against plain twins: the JSON reader in any chunks, and the nesting of events."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway import _imports
from cutaway.trace.imports.recorded import Item
from cutaway.vocabulary import Kind
from effort import effort

pytestmark = pytest.mark.core

MISSING = _imports.MISSING

TIMES = st.decimals(min_value=-(10**12), max_value=10**12, places=3)
VALUES = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=6)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=12),
        "ts": TIMES,
        "n": st.integers(-(2**62), 2**62),
        "args": st.dictionaries(
            st.sampled_from(["n", "grid", "other"]), VALUES, max_size=3
        )
        | st.fixed_dictionaries({"grid": st.lists(st.integers(0, 99), max_size=4)}),
        "kept": st.recursive(
            VALUES,
            lambda v: (
                st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3)
            ),
        ),
    },
)


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What the reader should find: name, ts in thousandths, args/n, the second of args/grid, and a list or object as it is."""

    def integer(value: Any) -> int:
        if isinstance(value, bool) or value is None or isinstance(value, (list, dict)):
            return MISSING
        text = str(value)
        digits = text.removeprefix("-")
        fits = digits.isascii() and digits.isdigit() and int(digits) < 2**64
        return (
            int(np.array(int(text) & (2**64 - 1), np.uint64).view(np.int64))
            if fits
            else MISSING
        )

    found = []
    for row in rows:
        args = row.get("args", {})
        grid = args.get("grid")
        second = grid[1] if isinstance(grid, list) and len(grid) > 1 else None
        ts = int(row["ts"] * 1000) if "ts" in row else MISSING
        kept = row["kept"] if isinstance(row.get("kept"), (list, dict)) else None
        found.append(
            (row.get("name", ""), kept, ts, integer(args.get("n")), integer(second))
        )
    return found


class Encoder(json.JSONEncoder):
    """Decimals as their digits, which floats would not keep."""

    def encode(self, value: Any) -> str:
        if isinstance(value, dict):
            return (
                "{"
                + ",".join(
                    f"{json.dumps(k)}: {self.encode(v)}" for k, v in value.items()
                )
                + "}"
            )
        if isinstance(value, list):
            return "[" + " , ".join(map(self.encode, value)) + "]"
        return str(value) if isinstance(value, Decimal) else super().encode(value)


@settings(max_examples=effort(100, 25))
@given(rows=st.lists(ROWS, max_size=6), ascii=st.booleans(), size=st.integers(1, 40))
def test_json_in_any_chunks_gives_what_the_standard_library_gives(
    rows: list[dict[str, Any]], ascii: bool, size: int
) -> None:
    text = Encoder(ensure_ascii=ascii).encode(
        {"before": [1, {"ts": 5}], "rows": rows, "after": "x"}
    )
    raw = text.encode("utf-8", "replace")
    parser = _imports.JsonTables(64, 4096, 1 << 20)
    kinds = {
        "name": "text",
        "kept": "raw",
        "ts": "micro",
        "args/n": "int",
        "args/grid/1": "int",
    }
    columns = [(path.split("/"), kind) for path, kind in kinds.items()]
    table = parser.add_table([["rows", "[]"]], columns)
    for at in range(0, len(raw), size):
        parser.feed(raw[at : at + size])
    parser.finish()
    name, kept, *numbers = (column.tolist() for column in parser.take(table))
    texts = parser.take_strings()
    named = (
        [texts[i] for i in name],
        [json.loads(texts[i]) if i else None for i in kept],
    )
    found = list(zip(*named, *numbers, strict=True))
    assert found == plain(rows)


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([Item.CALL, Item.CALL, Item.OPERATION, Item.FRAME, Item.API]),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=25,
)


def calls_of(lane: tuple[Any, ...]) -> list[tuple[int, int, int]]:
    """(id, start, end) of the calls of a lane; asserts order of time and nesting."""
    time, value, kind, id = (column.tolist() for column in lane)
    assert kind[0] == Kind.BEGIN and kind[-1] == Kind.END
    found, stack, operations, last = [], [], [], 0
    for t, v, k, i in zip(time, value, kind, id, strict=True):
        assert t >= last
        last = t
        if k == Kind.CALL:
            found.append((i, t, t + v))
            last = t + v
        elif k == Kind.ENTER:
            stack.append((i, t))
        elif k == Kind.EXIT:
            assert stack[-1][0] == i
            found.append((i, stack.pop()[1], t))
        elif k == Kind.OP_ENTER:
            operations.append(i)
        elif k == Kind.OP_EXIT:
            operations.remove(i)
    assert not stack and not operations
    return found


@settings(max_examples=effort(120, 30))
@given(events=EVENTS)
def test_nesting_keeps_every_call_with_its_time_in_order(
    events: list[tuple[int, int, int, int]],
) -> None:
    start = np.array([e[0] for e in events], np.int64)
    end = start + np.array([e[1] for e in events], np.int64)
    item, name = (
        np.array([e[2] for e in events], np.uint8),
        np.array([e[3] for e in events], np.uint32),
    )
    nested = _imports.nest(start, end, item, name)
    assert nested["dropped"] == 0
    found = [
        (int(nested["function"][call]), begin, finish)
        for lane in nested["lanes"]
        for call, begin, finish in calls_of(lane)
    ]
    calls = item == Item.CALL
    expected = zip(
        name[calls].tolist(), start[calls].tolist(), end[calls].tolist(), strict=True
    )
    assert sorted(found) == sorted(expected)


@settings(max_examples=effort(120, 30))
@given(events=EVENTS)
def test_an_api_call_is_in_an_operation_that_is_open_and_began_last(
    events: list[tuple[int, int, int, int]],
) -> None:
    start = np.array([e[0] for e in events], np.int64)
    end = start + np.array([e[1] for e in events], np.int64)
    item, name = (
        np.array([e[2] for e in events], np.uint8),
        np.array([e[3] for e in events], np.uint32),
    )
    operation = _imports.nest(start, end, item, name)["operation"]
    for i in np.flatnonzero(item == Item.API).tolist():
        around = (item == Item.OPERATION) & (start <= start[i]) & (end > start[i])
        # One that begins at the same instant is around it only if it is not the shorter of the two.
        around &= (start < start[i]) | (end >= end[i])
        if not around.any():
            assert operation[i] == _imports.NOWHERE
        else:
            latest = start[around].max()
            assert operation[i] in name[around & (start == latest)]
