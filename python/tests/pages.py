# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python of a page: they run, and the results that their comments show are compared.

A block that is not run has `<!-- not run: why -->` in the line before it. A comment after an expression shows its
result if it begins like one: `1 in seen   # True`; after the result, it may explain: `# True: it is there`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- not run: .+ -->\n)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: How results begin: numbers, names of constants, tuples, lists, text, arrays of NumPy, objects of scbf.
RESULT = re.compile(r"-?\d[\d_.]*($|[:;])|[\[('\"]|(True|False|None)\b|array\(|<scbf\.")


def blocks(page: str) -> list[str]:
    """Those that are run."""
    return [code for not_run, code in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if not not_run]


def comment_after(node: ast.stmt, lines: list[str]) -> str:
    """The comment on a statement's last line, without its mark."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    rest = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    return rest.partition("#")[2].strip()


def run_block(code: str, names: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Runs the statements; of each expression, yields its text, its value, and the comment after it."""
    lines = code.splitlines()
    for node in ast.parse(code).body:
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "page", "eval"), names)
            yield ast.unparse(node), value, comment_after(node, lines)
        else:
            exec(compile(ast.Module([node], []), "page", "exec"), names)


def is_shown(value: Any, comment: str) -> bool:
    """Whether the comment is the value's repr, alone or before an explanation."""
    return re.match(re.escape(repr(value)) + r"($|[:;] )", comment) is not None


def run_page(page: str, names: dict[str, Any]) -> tuple[list[Any], int]:
    """Runs all blocks, one after another, and compares what they show.

    Returns the values of the expressions, and how many were compared.
    """
    values, compared = [], 0
    for code in blocks(page):
        for text, value, comment in run_block(code, names):
            values.append(value)
            if RESULT.match(comment):
                assert is_shown(value, comment), f"{page}: {text} is {value!r}, and the page says {comment}"
                compared += 1
    return values, compared
