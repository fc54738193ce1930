"""Writes the C++ side of src/cutaway/vocabulary.py, and the version. CMake runs it: python vocabulary_header.py TO

The file is left alone if it would not change, so that nothing is compiled again without need.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "cutaway"
VOCABULARY = PACKAGE / "vocabulary.py"
# kApi and kBlocks alone would say too little.
SUFFIX = {"Stream": "Stream", "Hint": "Hint"}
TYPES = {
    "i64": "int64_t",
    "u64": "uint64_t",
    "u32": "uint32_t",
    "u16": "uint16_t",
    "u8": "uint8_t",
}


def header(vocabulary: Path = VOCABULARY) -> str:
    declared = runpy.run_path(str(vocabulary))
    lines = [
        "// Made from src/cutaway/vocabulary.py, which says what everything means.",
        "#pragma once",
    ]
    lines += ["#include <cstdint>", "", "namespace cutaway {", ""]
    version = runpy.run_path(str(PACKAGE / "version.py"))["__version__"]
    lines.append(f'constexpr const char* kVersion = "{version}";')
    lines += [
        f"constexpr uint32_t {constant(name)} = {declared[name]:#x};"
        for name in declared["CONSTANTS"]
    ]
    lines.append(
        f"enum Layer : uint8_t {{ {', '.join(map(constant, declared['THREAD_LAYERS']))}, kLayers }};"
    )
    for name, texts in (
        ("kLayerNames", declared["THREAD_LAYERS"]),
        ("kOperations", declared["OPERATIONS"]),
    ):
        listed = ", ".join(f'"{text}"' for text in texts)
        lines.append(f"constexpr const char* {name}[] = {{{listed}}};")
    lines.append(built_in(declared["OPERATIONS"]))
    for enum in declared["ENUMS"]:
        members = declared["numbers"](enum)
        suffix = SUFFIX.get(enum.__name__, "")
        values = ", ".join(
            f"{constant(name)}{suffix} = {value}" for name, value in members.items()
        )
        lines.append(f"enum {enum.__name__} : uint8_t {{ {values} }};")
    for name in declared["STRUCTURES"]:
        lines += [
            "",
            f"struct {name} {{",
            *(field(*one) for one in declared["fields"](name)),
            "};",
        ]
        lines.append(
            f'static_assert(sizeof({name}) == {size(declared["fields"](name))}, "no padding");'
        )
    return "\n".join([*lines, "", "}  // namespace cutaway", ""])


def built_in(operations: Iterable[str]) -> str:
    """The ids of the built-in operations.

    >>> built_in(["simulation", "sync"])
    'enum BuiltInName : uint32_t { kSimulationName = 1, kSyncName = 2, kBuiltInNames = 2 };'
    """
    ids = [
        f"{constant(name)}Name = {number}" for number, name in enumerate(operations, 1)
    ]
    return f"enum BuiltInName : uint32_t {{ {', '.join(ids)}, kBuiltInNames = {len(ids)} }};"


def constant(name: str) -> str:
    """The name of a constant.

    >>> constant("OP_ENTER"), constant("backend")
    ('kOpEnter', 'kBackend')
    """
    return "k" + "".join(word.capitalize() for word in name.split("_"))


def field(kind: str, name: str, count: int, meaning: str) -> str:
    array = f"[{count}]" if count > 1 else ""
    return f"  {TYPES[kind]} {name}{array};" + (f"  // {meaning}" if meaning else "")


def size(fields: list[tuple[str, str, int, str]]) -> int:
    return sum(int(kind[1:]) // 8 * count for kind, _, count, _ in fields)


if __name__ == "__main__":
    to, text = Path(sys.argv[1]), header()
    if not to.is_file() or to.read_text(encoding="utf-8") != text:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
