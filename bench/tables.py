# SPDX-License-Identifier: Apache-2.0
"""What the tables that plot.py puts into the documentation have in common: how they are written, and the rows of a
result file."""

MAIN = ("insert", "miss", "hit", "remove")
ALL = ("insert", "miss", "hit", "mix", "count", "remove")
NOTHING = "n/a"


def keys(n):
    """100000 → '10^5' as HTML, 50000 → '5 · 10^4'."""
    exponent = len(str(n)) - 1
    lead = n / 10**exponent
    power = f"10<sup>{exponent}</sup>"
    return power if lead == 1 else f"{lead:g} · {power}"


def label(kind):
    return {"split_block": "`split_block`", "split": "`split`", "ranked": "`ranked`",
            "split_block bits": "`split_block`, bits", "split bits": "`split`, bits",
            "ranked bits": "`ranked`, bits", "libbloom": "libbloom (plain)",
            "textbook": "textbook counting", "unordered_set": "`std::unordered_set`"}[kind]


def number(value):
    """Three significant digits without an exponent."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


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
    """A Markdown table. Columns before the one named '|' are aligned left, the others right."""
    at = head.index("|")
    head = [h for h in head if h != "|"]
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join("---" if i < at else "--:" for i in range(len(head))) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


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
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else number(value)


def with_notes(systems, head, rows, notes):
    c = systems.context
    notes = notes + [f"{c['cpu_model']}, {c['build_type']} build, commit {c['commit']}, "
                     f"{c['date'][:10]}; `bench/results/{systems.file_name}`"]
    return (table(head, [[cell(value) for value in row] for row in rows]) + "\n" +
            "".join(f"- {note}\n" for note in notes))
