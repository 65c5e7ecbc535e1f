# SPDX-License-Identifier: Apache-2.0
"""The examples run, draw, and check what they say; docs/analytics.md shows code that is in them."""

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import scbf

from support import PACKAGE, in_process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "python"
PAGE = ROOT / "docs" / "analytics.md"

#: Options that make each example small, and lines that it must print.
SMALL = {
    "semi_join": (["--scale", "0.01", "--repeat", "1"], [
        "60,175 lines; wanted are those of", "rows of lineitem +60,175 ", "pyarrow +filter, join",
        "Polars +filter, join", "DuckDB +filter as a function, join", "Flight +filter, join",
        "all answers have the same rows"]),
    "crawl": (["--days", "6", "--days-kept", "2", "--links", "2000"], [
        "6 days, ", r"fetched again within that time +0\n", "the filter equals one that never held the pages"]),
    "spam_list": (["--listed", "5000", "--honest", "5000", "--appeals", "500"], [
        "5,000 addresses are listed", "1,000 appeals, 500 of senders who are listed", "listed, and let through +0 ",
        "refused, because surely absent"]),
    "cache_penetration": (["--products", "2000", "--requests", "5000"], [
        "5,000 requests, ", r"reached Redis +5,000 +\d", "both ways gave the same answers; 100 products came"]),
    "look_inside": (["--keys", "3000"], ["split_block", "distinct keys +3,000 ", "predicted 0.99"]),
}
NEEDS = {
    "semi_join": ["matplotlib", "pyarrow", "polars", "duckdb"],
    "crawl": ["matplotlib", "pyarrow"],
    "spam_list": ["matplotlib"],
    "cache_penetration": ["matplotlib", "redis"],
    "look_inside": ["matplotlib"],
}


def skip_unless_it_can_run(name: str) -> None:
    for module in NEEDS[name]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{name}.py needs {module}")
    beside_python = Path(sys.executable).with_name("tpchgen-cli")
    if name == "semi_join" and not (beside_python.exists() or shutil.which("tpchgen-cli")):
        pytest.skip("semi_join.py needs tpchgen-cli")
    if name == "cache_penetration" and not shutil.which("redis-server"):
        pytest.skip("cache_penetration.py needs redis-server")


def run(arguments: list[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=55,
                          env={**os.environ, "PYTHONPATH": paths, "MPLBACKEND": "Agg", **environment})


def test_all_examples_are_here() -> None:
    """But for first_steps.py, which draws nothing; it is below."""
    assert sorted({path.stem for path in EXAMPLES.glob("*.py")} - {"first_steps"}) == sorted(SMALL) == sorted(NEEDS)


@pytest.mark.parametrize("name", SMALL)
def test_runs_draws_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    skip_unless_it_can_run(name)
    options, expected = SMALL[name]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run([EXAMPLES / f"{name}.py", *options, "--plot", "plot.svg"], tmp_path, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stdout + done.stderr
    for pattern in expected:
        assert re.search(pattern, done.stdout), f"{pattern!r} is not in\n{done.stdout}"
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.startswith("<?xml") and len(drawn) > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plot.svg", "temporary"]
    assert not list(temporary.iterdir())


def test_first_steps(tmp_path: Path) -> None:
    """As scripts/demo runs it, on keys of its own."""
    present, absent = [f"word {i}" for i in range(3000)], [f"none {i}" for i in range(3000)]
    for name, words in (("keys.txt", present), ("absent.txt", absent)):
        (tmp_path / name).write_text("".join(word + "\n" for word in words))
    words = scbf.Filter(len(present), 0.01)
    words.insert(present)
    words.save(tmp_path / "words.scbf")
    arguments = ["words.scbf", "keys.txt", "absent.txt"]
    done = run([EXAMPLES / "first_steps.py", *arguments], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for pattern in (r"<scbf\.Filter: .*3000 keys", r"false positives: [01]\.\d+ %, computed: [01]\.\d+ %",
                    "after removal: 1,500 words, 0\\.", "MiB of bits instead of", "of 5,000,000 rows", "the same rows"):
        assert re.search(pattern, done.stdout), f"{pattern!r} is not in\n{done.stdout}"
    assert run([EXAMPLES / "first_steps.py"], tmp_path).returncode == 1
    # A filter that lacks words is noticed.
    words.remove(present[:100])
    words.save(tmp_path / "words.scbf")
    done = run([EXAMPLES / "first_steps.py", *arguments], tmp_path)
    assert done.returncode == 1 and "AssertionError" in done.stderr


#: Breaks the package: one hit of each call is lost, once the filter has had some calls.
LOSES_A_KEY = """
    import runpy, sys
    import scbf

    def losing(method):
        def changed(self, keys, *arguments, **options):
            answers = method(self, keys, *arguments, **options)
            if method.__name__ == "find":
                return answers[:-1]
            if answers.any():
                answers[answers.argmax()] = False
            return answers
        return changed

    for kind in (scbf.Filter, scbf.BloomFilter, scbf.Replica):
        kind.contains = losing(kind.contains)
    scbf.Filter.find = losing(scbf.Filter.find)
"""
#: Calls every key present.
SAYS_ALWAYS_YES = """
    import runpy, sys
    import numpy as np
    import scbf

    for kind in (scbf.Filter, scbf.BloomFilter, scbf.Replica):
        kind.contains = lambda self, keys, **options: np.ones(len(keys), bool)
    scbf.Filter.find = lambda self, keys, **options: np.arange(len(keys))
"""
#: Nothing is ever removed.
REMOVES_NOTHING = """
    import runpy, sys
    import scbf

    scbf.Filter.remove = lambda self, keys, **options: None
"""
RUN = """
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("fault, name", [
    *(("LOSES_A_KEY", name) for name in ("semi_join", "crawl", "spam_list", "cache_penetration")),
    *(("SAYS_ALWAYS_YES", name) for name in SMALL),
    *(("REMOVES_NOTHING", name) for name in ("crawl", "spam_list", "cache_penetration")),
])
def test_checks_notice_a_filter_that_is_wrong(
    fault: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example that would run through with such a filter would prove nothing."""
    skip_unless_it_can_run(name)
    monkeypatch.chdir(tmp_path)
    code = textwrap.dedent(globals()[fault]) + textwrap.dedent(RUN)
    done = in_process(code, str(EXAMPLES / f"{name}.py"), *SMALL[name][0], seconds=55)
    assert done.returncode == 1 and "AssertionError" in done.stderr, done.stdout + done.stderr[-2000:]


def blocks(language: str) -> list[tuple[str | None, str]]:
    """(the example that the section before it names, text) of each block of the page."""
    found: list[tuple[str | None, str]] = []
    example = None
    for part in re.split(r"(?m)^(```\w*\n.*?^```$)", PAGE.read_text(encoding="utf-8"), flags=re.S):
        if part.startswith(f"```{language}\n"):
            found.append((example, part.removeprefix(f"```{language}\n").removesuffix("```")))
        elif names := re.findall(r"examples/python/(\w+)\.py", part):
            example = names[-1]
    return found


def test_the_page_shows_code_of_the_examples() -> None:
    shown = blocks("python")
    assert {name for name, _ in shown} == set(SMALL)
    for name, text in shown:
        source = textwrap.dedent((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
        indents = [textwrap.indent(text, " " * depth) for depth in (0, 4, 8)]
        assert any(indented in source for indented in indents), f"not in {name}.py:\n{text}"


def test_the_page_shows_output_and_plots_of_each_example() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in SMALL:
        (output,) = re.findall(rf"<!-- output:{name} -->\n```text\n(.*?)```\n<!-- /output -->", text, flags=re.S)
        assert output.startswith(f"$ python {name}.py"), name
        picture = PAGE.parent / "img" / f"analytics-{name}.svg"
        assert f"(img/{picture.name})" in text and picture.exists()


def test_the_page_says_what_python_answers() -> None:
    for module in ("duckdb", "pandas", "polars", "pyarrow"):
        pytest.importorskip(module)
    session = "".join(text for _, text in blocks("pycon"))
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0))
    assert runner.tries > 8 and runner.failures == 0
