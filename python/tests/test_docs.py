# SPDX-License-Identifier: Apache-2.0
"""The documentation: every public name has a docstring, and its examples are true."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest
import scbf

OPTIONAL = {"plot": ["matplotlib"], "polars": ["polars"], "duckdb": ["duckdb", "pyarrow"], "spark": ["pyspark", "pyarrow"]}


def modules() -> list[str]:
    names = [info.name for info in pkgutil.walk_packages(scbf.__path__, "scbf.")]
    return ["scbf", *(name for name in names if name != "scbf.__main__")]


def imported(name: str) -> Any:
    if name == "scbf.cuda" and not scbf._scbf.has_cuda:
        pytest.skip("this build has no CUDA backend")
    for needed in OPTIONAL.get(name.removeprefix("scbf.").split(".")[0], []):
        pytest.importorskip(needed)
    return importlib.import_module(name)


def public(owner: Any) -> dict[str, Any]:
    names = getattr(owner, "__all__", None) or [name for name in vars(owner) if not name.startswith("_")]
    return {name: inspect.getattr_static(owner, name) for name in names}


def classes() -> list[str]:
    return sorted(name for name in scbf.__all__ if isinstance(getattr(scbf, name), type))


@pytest.mark.parametrize("name", modules())
def test_modules_have_docstrings(name: str) -> None:
    assert imported(name).__doc__


@pytest.mark.parametrize("name", sorted(scbf.__all__))
def test_public_names_have_docstrings(name: str) -> None:
    value = getattr(scbf, name)
    if not isinstance(value, type) and not callable(value):
        return  # a constant or an alias of a type
    assert value.__doc__ and value.__doc__.strip()
    if isinstance(value, type):
        assert value.__module__.split(".")[0] == "scbf" and value.__name__ == name


def test_all_is_complete() -> None:
    assert len(set(scbf.__all__)) == len(scbf.__all__)
    for name in ("Filter", "BloomFilter", "Bank", "Delta", "Replica", "Geometry", "Growth", "plan", "Error", "InvalidKey"):
        assert name in scbf.__all__


#: Names that say it all, and those of Python's protocols.
PLAIN = {"growth", "geometry", "seed", "backend", "counters", "file_bytes", "metadata", "name", "value"}


@pytest.mark.parametrize("name", classes())
def test_members_have_docstrings(name: str) -> None:
    kind = getattr(scbf, name)
    if issubclass(kind, scbf.Error) or issubclass(kind, int):
        return  # those of its base class
    lacking = [
        member
        for member, value in public(kind).items()
        if not member.startswith("_") and member not in PLAIN and not inspect.ismemberdescriptor(value) and not getattr(value, "__doc__", None)
    ]
    assert lacking == []


def examples() -> dict[str, doctest.DocTest]:
    """Of the package, its classes, methods and functions, those in C++ included."""
    found: dict[str, doctest.DocTest] = {}
    for name, value in [("scbf", scbf), *((f"scbf.{name}", getattr(scbf, name)) for name in scbf.__all__)]:
        owners = [(name, value)]
        if isinstance(value, type):
            owners += [(f"{name}.{member}", getattr(value, member)) for member in public(value)]
        for where, owner in owners:
            text = getattr(owner, "__doc__", None)
            if isinstance(text, str) and ">>>" in text:
                found[where] = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), {}, where, None, None)
    return found


EXAMPLES = examples()


def test_there_are_examples() -> None:
    assert {"scbf", "scbf.Filter", "scbf.BloomFilter", "scbf.Bank", "scbf.Delta", "scbf.Growth", "scbf.MemberLists",
            "scbf.plan"} <= set(EXAMPLES)


def run(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(test, out=said.append, clear_globs=True)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("where", EXAMPLES)
def test_examples(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "pyarrow" in (EXAMPLES[where].docstring or ""):
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    run(EXAMPLES[where])


def own_examples(name: str) -> bool:
    """Not those of tests/spark, which need a session, and of EXAMPLES."""
    return name not in ("scbf", "scbf._scbf") and not name.startswith("scbf.spark")


@pytest.mark.parametrize("name", [*filter(own_examples, modules())])
def test_examples_of_modules(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(name)
    monkeypatch.chdir(tmp_path)
    tests = doctest.DocTestFinder().find(module, module.__name__)
    if any("pyarrow" in example.source for test in tests for example in test.examples):
        pytest.importorskip("pyarrow")
    for test in tests:
        if test.examples:
            run(test)
