"""The JSON of `cutaway show --brief` obeys the schema that we publish. Needs jsonschema, which the core tests do without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from cutaway.reports import digests
from cutaway.reports.brief import brief, schema

from .runs import crowd, language, single, with_device


@pytest.mark.parametrize("make", [single, crowd, with_device, language])
def test_every_json_obeys_the_published_schema(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    run = digests.open_run(make(tmp_path / "r.cutaway"))
    data = json.loads(json.dumps(brief(run, digests.digest_of(run))))
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    assert [error.message for error in validator.iter_errors(data)] == []
    # And it is strict enough to notice what is missing or changed.
    for key in data:
        assert not validator.is_valid(
            {name: value for name, value in data.items() if name != key}
        )
    assert not validator.is_valid(data | {"schema": "cutaway.brief/2"})
