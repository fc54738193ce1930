"""The pprof export, decoded by protobuf's own parser from the published messages."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import cutaway
from cutaway.commands import main
from reports.runs import single

FIELDS = {
    "ValueType": "type:1:int64 unit:2:int64",
    "Label": "key:1:int64 str:2:int64 num:3:int64 num_unit:4:int64",
    "Sample": "location_id:1:*uint64 value:2:*int64 label:3:*Label",
    "Line": "function_id:1:uint64 line:2:int64",
    "Location": "id:1:uint64 mapping_id:2:uint64 address:3:uint64 line:4:*Line",
    "Function": "id:1:uint64 name:2:int64 system_name:3:int64 filename:4:int64",
    "Profile": "sample_type:1:*ValueType sample:2:*Sample location:4:*Location function:5:*Function "
    "string_table:6:*string time_nanos:9:int64 duration_nanos:10:int64 comment:13:*int64",
}
"""The messages of google/pprof/proto/profile.proto, as far as they are used: name:number:type, * is repeated."""


def profile_class() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="pp", syntax="proto3"
    )
    for message, fields in FIELDS.items():
        made = file.message_type.add(name=message)
        for entry in fields.split():
            name, number, kind = entry.split(":")
            field = made.field.add(name=name, number=int(number))
            field.label = (
                kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            )
            kind = kind.removeprefix("*")
            if kind in FIELDS:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".pp.{kind}"
            else:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pp.Profile"))


def test_a_profile_holds_every_stack_with_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a run whose operations take known times.
    path = single(tmp_path / "r.cutaway")
    target = tmp_path / "r.pb.gz"
    assert main(["export", str(path), "-f", "pprof", "-o", str(target)]) == 0
    profile = profile_class()()
    profile.ParseFromString(gzip.decompress(target.read_bytes()))
    # Then every number means something.
    texts, functions = profile.string_table, {f.id: f for f in profile.function}
    locations = {one.id: one for one in profile.location}
    assert texts[0] == "" and texts[profile.sample_type[0].unit] == "nanoseconds"
    spent: dict[str, int] = {}
    stacks = []
    for sample in profile.sample:
        lines = [locations[id].line[0] for id in sample.location_id]
        names = [texts[functions[line.function_id].name] for line in lines]
        stacks.append([*zip(names, (line.line for line in lines), strict=True)])
        labels = {texts[one.key]: texts[one.str] for one in sample.label}
        assert names[-1] == (labels["operation"] or "(none)"), (
            "the operation is outermost"
        )
        assert labels["process"] == "learner"
        spent[labels["operation"]] = spent.get(labels["operation"], 0) + sample.value[0]
    wanted = cutaway.open(path).breakdown(by="operation")
    assert spent == {row["operation"]: row["ns"] for row in wanted if row["ns"]}
    assert any(
        stack[0][0] == "native_simulation" and ("loop", 70) in stack for stack in stacks
    )
