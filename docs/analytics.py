#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/analytics.md, and writes their plots and what they print into the page.

  docs/analytics.py                  all examples
  docs/analytics.py crawl spam_list  only these

Needs the package, and what the examples need. Figures are of the machine that it runs on.
"""
import datetime
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = {
    "semi_join": [],
    "crawl": ["--days", "28"],
    "spam_list": [],
    "cache_penetration": [],
    "look_inside": [],
}
# Text stays text, and the same data give the same bytes.
STYLE = """svg.fonttype: none
svg.hashsalt: scbf
font.family: DejaVu Sans
axes.prop_cycle: cycler(color=["2f6fde", "dd7a1f", "23946a", "cc3b3b"])
axes.grid: True
grid.color: e8ecf1
axes.axisbelow: True
"""


def run(name, options):
    """What the example prints, with the command in the first line; draws its plot."""
    plot = ROOT / "docs" / "img" / f"analytics-{name}.svg"
    with tempfile.TemporaryDirectory() as folder:
        style = pathlib.Path(folder, "matplotlibrc")
        style.write_text(STYLE)
        printed = subprocess.run(
            [sys.executable, ROOT / "examples" / "python" / f"{name}.py", *options, "--plot", plot], check=True,
            stdout=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "MATPLOTLIBRC": str(style), "SOURCE_DATE_EPOCH": "0", "MPLBACKEND": "Agg"}).stdout
    drawn = plot.read_text().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    plot.write_text(re.sub(r"[ \t]+$", "", drawn, flags=re.M))
    command = " ".join(["$ python", f"{name}.py", *options])
    return f"{command}\n" + "\n".join(line.rstrip() for line in printed.rstrip().split("\n"))


def machine():
    """Where the figures come from."""
    cpu = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(),
                          flags=re.M))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("pyarrow", "polars", "duckdb"))
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True,
                            text=True).stdout.strip()
    return (f"{cpu['model name']} (family {cpu['cpu family']} model {cpu['model']}), {os.cpu_count()} cores; "
            f"{versions}; commit {commit}, {datetime.date.today()}")


def main():
    page = ROOT / "docs" / "analytics.md"
    for name in sys.argv[1:] or EXAMPLES:
        output = run(name, EXAMPLES[name])
        text, found = re.subn(rf"(<!-- output:{name} -->\n```text\n).*?(```\n)",
                              lambda m: m[1] + output + "\n" + m[2], page.read_text(encoding="utf-8"), flags=re.S)
        if not found:
            sys.exit(f"{page}: there is no place for the output of {name}")
        text = re.sub(r"(<!-- machine -->\n).*?(<!-- /machine -->)", lambda m: m[1] + machine() + "\n" + m[2], text,
                      flags=re.S)
        page.write_text(text, encoding="utf-8")
        print(output + "\n")


if __name__ == "__main__":
    main()
