"""The examples in all docstrings; where they need a run, it is the small one of `analysis_runs`."""

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from analysis_runs import write_demo

import cutaway
import cutaway.analysis
import cutaway_balance

pytestmark = pytest.mark.core


def with_examples(package: ModuleType) -> list[str]:
    """The modules of a package that have examples."""
    folder = Path(package.__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package.__name__, *parts))
            found.append(name.removesuffix(".__init__"))
    return found


MODULES = with_examples(cutaway) + with_examples(cutaway_balance)
PUBLIC = [
    name
    for name, value in vars(cutaway.analysis.Run).items()
    if callable(value) and name[0] != "_"
]


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    return write_demo(tmp_path_factory.mktemp("demo") / "demo.cutaway")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, demo_run):
    module = importlib.import_module(name)
    names = {
        **vars(module),
        "demo_run": demo_run,
        "run": cutaway.open(demo_run),
        "np": np,
    }
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for test in finder.find(module, name, globs=names):
        runner.run(test)
    found = runner.summarize(verbose=False)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("method", PUBLIC)
def test_every_method_of_a_run_has_an_example(method):
    assert ">>> " in getattr(cutaway.analysis.Run, method).__doc__
