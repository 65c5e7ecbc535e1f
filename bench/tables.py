# SPDX-License-Identifier: Apache-2.0
"""What the tables that plot.py puts into the documentation have in common: how they are written, and the rows of a
result file."""

import re
import textwrap

MAIN = ("insert", "miss", "hit", "remove")
ALL = ("insert", "miss", "hit", "mix", "count", "remove")
NOTHING = "n/a"


# What a family and a model of processors are called.
CODE_NAMES = {(6, 143): "Sapphire Rapids", (6, 207): "Emerald Rapids", (25, 1): "Zen 3", (25, 17): "Zen 4", (26, 2): "Zen 5"}


def machine_name(context):
    """'AMD EPYC (family 25 model 17)' → 'AMD EPYC (Zen 4, family 25 model 17)'."""
    def with_name(match):
        name = CODE_NAMES.get((int(match[1]), int(match[2])))
        return f"({name + ', ' if name else ''}family {match[1]} model {match[2]})"

    return re.sub(r"\(family (\d+) model (\d+)\)", with_name, context.get("cpu_model", NOTHING))


def keys(n):
    """100000 → '10^5' as HTML, 50000 → '5 · 10^4'; small and odd numbers stay: '976', '63,666'."""
    n = int(n)
    exponent = len(str(n)) - 1
    lead = n / 10**exponent
    if n < 10_000 or lead != round(lead, 1 if n >= 100_000 else 0):
        return f"{n:,}"
    power = f"10<sup>{exponent}</sup>"
    return power if lead == 1 else f"{lead:g} · {power}"


def listed(words):
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def label(kind):
    return {"split_block": "`split_block`", "split": "`split`", "ranked": "`ranked`",
            "split_block bits": "`split_block`, bits", "split bits": "`split`, bits",
            "ranked bits": "`ranked`, bits", "libbloom": "libbloom (plain)", "blocked": "blocked Bloom (plain)",
            "textbook": "textbook counting", "unordered_set": "`std::unordered_set`"}[kind]


def number(value):
    """At least three significant digits, without an exponent."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(value, digits=3):
    if value is None:
        return NOTHING
    # Never with an exponent: 0.999 to two digits is 100 %, not 1e+02 %.
    return f"{100 * value:.{max(digits, 3) if round(100 * value) >= 100 else digits}g} %"


def median(row):
    return NOTHING if row is None else number(row["ns"][1])


def spread(row):
    if row is None:
        return NOTHING
    low, middle, high = row["ns"]
    return f"{number(middle)} <sub>{number(low)}–{number(high)}</sub>"


def table(head, rows):
    """A Markdown table. Its columns are aligned left up to one named '|', then right, and left again after
    a second one."""
    names, marks, mark = [], [], "---"
    for name in head:
        if name == "|":
            mark = "--:" if mark == "---" else "---"
        else:
            names.append(name)
            marks.append(mark)
    lines = ["| " + " | ".join(names) + " |", "|" + "|".join(marks) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def wrapped(text, first="", others=""):
    """Lines of at most 118 characters, with no break before a unit."""
    text = re.sub(r"(\d) (?=(s|ns|µs|%|kB|MB|GB|MiB|GiB)(\W|$))", "\\1\u00a0", text)
    lines = textwrap.fill(text, 118, initial_indent=first, subsequent_indent=others, break_long_words=False,
                          break_on_hyphens=False)
    return lines.replace("\u00a0", " ") + "\n"


def footnotes(notes):
    """The list below a table."""
    return "\n" + "".join(wrapped(note, "- ", "  ") for note in notes)


class Systems:
    """The rows of a result file, but for one of filter_bench (filter_tables.Results)."""

    def __init__(self, document, file_name):
        self.context = document["context"]
        self.file_name = file_name
        self.rows = document["rows"]

    def pick(self, **wanted):
        """The rows that have all these values."""
        return [r for r in self.rows if all(r.get(k) == v for k, v in wanted.items())]

    def one(self, **wanted):
        return next(iter(self.pick(**wanted)), None)


def middle(row, form=""):
    """The median ns of a form of a row, or None if the row has no such form."""
    return row["ns" + form][1] if row and "ns" + form in row else None


def cell(value):
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e9 else number(value)


def with_notes(systems, head, rows, notes):
    c = systems.context
    notes = notes + [f"{machine_name(c)}, {c['build_type']} build, commit {c['commit']}, "
                     f"{c['date'][:10]}; `bench/results/{systems.file_name}`"]
    return table(head, [[cell(value) for value in row] for row in rows]) + footnotes(notes)
