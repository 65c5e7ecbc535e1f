#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the benchmark tables and plots of the documentation from bench/results/.

Tables stand between '<!-- table:NAME -->' and '<!-- /table -->', in README.md or a page of docs/.
Each table must have its marker on exactly one page, and every marker a table; otherwise nothing is
written. A figure that was not measured is shown as 'n/a', never guessed.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import tables

MARKER = re.compile(r"(<!-- table:([a-z_]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def fail(message):
    sys.exit(f"plot.py: {message}")


# Tables of programs of their own, from the newest result of scripts/bench --systems.
SYSTEMS = ("stages", "few_keys", "bank", "growing_bank", "index", "packages")


def pages(root):
    """The files that may hold tables, by their names from `root`, with their text."""
    files = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return {str(file.relative_to(root)): file.read_text() for file in files if file.is_file()}


def newest(folder, matrix):
    """The most recent result of such a run."""
    found = []
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        if result["context"].get("matrix") == matrix:
            found.append((result["context"]["date"], path))
    if not found:
        fail(f"{folder}: no result of such a run; make one with scripts/bench --{matrix}, "
             "or name a file with --results")
    return max(found)[1]


def fill_in(texts, made):
    """The texts with their tables replaced; each page is known by its name."""
    found = {table: [] for table in made}
    for page, text in texts.items():
        opened = re.findall(r"<!-- table:([a-z_]+) -->", text)
        for table in opened:
            if table not in made:
                fail(f"{page}: there is no table '{table}'; there are {', '.join(sorted(made))}")
            found[table].append(page)
        if len(MARKER.findall(text)) != len(opened) or text.count("<!-- /table -->") != len(opened):
            fail(f"{page}: a table marker is not followed by its own '<!-- /table -->' line")
    for table, where in found.items():
        if len(where) != 1:
            fail(f"one page must hold the line '<!-- table:{table} -->', once, followed by a line "
                 f"'<!-- /table -->'; found in {', '.join(where) or 'none'}")
    return {page: MARKER.sub(lambda m: m.group(1) + made[m.group(2)] + m.group(3), text)
            for page, text in texts.items()}


def load_matplotlib():
    """Asked for before anything is written; printing and checking tables do without it."""
    try:
        import matplotlib
    except ImportError:
        fail(f"{sys.executable} has no matplotlib (Debian: python3-matplotlib, for "
             "/usr/bin/python3)")
    matplotlib.use("svg")
    return matplotlib


def draw(results, folder, matplotlib):
    # Fixed, so that the same results give the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "scbf"
    matplotlib.rcParams["font.size"] = 9
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    styles = {"split_block": ("#0b6e4f", "o", 2.2), "split": ("#2f6db5", "s", 2.2),
              "textbook": ("#c0562f", "^", 1.2), "libbloom": ("#8a6d3b", "v", 1.2),
              "unordered_set": ("#777777", "x", 1.2)}
    figure, axes = plt.subplots(2, 2, figsize=(8, 6), sharex=True, sharey=True)
    for axis, operation in zip(axes.flat, ("insert", "miss", "hit", "remove")):
        for kind, (color, marker, width) in styles.items():
            points = [(n, row) for n in results.sizes
                      if (row := results.find(operation, kind, n)) is not None]
            if not points:
                continue
            x = [n for n, _ in points]
            low, middle, high = zip(*(row["ns"] for _, row in points))
            axis.plot(x, middle, color=color, marker=marker, linewidth=width, markersize=4,
                      label=kind.replace("_", " "))
            axis.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
        access = "line_update" if operation in ("insert", "remove") else "line_read"
        floor = results.floor(access, "memory")
        if floor is not None:
            axis.axhline(floor["ns"][1], color="black", linestyle="--", linewidth=0.8,
                         label="floor: one random line in memory")
        title = {"miss": "contains, absent keys", "hit": "contains, present keys"}
        axis.set(title=title.get(operation, operation), xscale="log", yscale="log")
        axis.grid(True, which="major", alpha=0.3)
        axis.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    for axis in axes[:, 0]:
        axis.set_ylabel("ns per key")
    for axis in axes[1]:
        axis.set_xlabel("keys in the filter")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False)
    figure.suptitle("One thread, 64-bit keys, 1 % false-positive rate "
                    "(line: median, band: minimum to maximum)", fontsize=9)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(folder / "bench_sizes.svg", metadata={"Date": None})

    names = results.backends()
    size = max((n for n in results.sizes if n <= 100_000 and names and
                results.find("insert", "split_block", n, backend=names[0])), default=None)
    if size is None:
        return ["bench_sizes.svg"]
    figure, axis = plt.subplots(figsize=(8, 3.4))
    operations = ("insert", "miss", "hit", "remove")
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        rows = [results.find(o, "split_block", size, backend=name) for o in operations]
        heights = [row["ns"][1] if row else 0 for row in rows]
        axis.bar([x + i * width for x in range(len(operations))], heights, width, label=name,
                 color=plt.cm.viridis(i / len(names)))
    axis.set_xticks([x + 0.4 - width / 2 for x in range(len(operations))], operations)
    axis.set(ylabel="ns per key", title=f"split block, {size:,} keys, by backend and vector "
             "target, one thread")
    axis.margins(y=0.2)
    axis.legend(frameon=False, fontsize=8, ncol=len(names), loc="upper center")
    axis.grid(True, axis="y", alpha=0.3)
    figure.tight_layout()
    figure.savefig(folder / "bench_targets.svg", metadata={"Date": None})
    return ["bench_sizes.svg", "bench_targets.svg"]


def draw_few_keys(systems, large, keys, axis):
    """How many times as long as one filter takes, by the number of keys that are asked at once."""
    table = [dict(zip(systems.tables["few_keys"]["columns"], row))
             for row in systems.tables["few_keys"]["rows"]]
    rows = [(int(row["of"].split()[0]), row) for row in table
            if row["keys"] == keys and row["of"] != "one filter"]
    for at_once, label, colour in (("alone", "one key", "#0b6e4f"), ("8", "8 keys", "#2f6db5"),
                                   ("64", "64 keys", "#8a6d3b")):
        axis.plot([stages for stages, _ in rows],
                  [row[at_once + ": absent, to one filter"] for _, row in rows], "o-",
                  color=colour, label=label)
    rows = [row for row in large if row["keys"] == keys and row["policy"] == "tightening"]
    axis.plot([row["stages"] for row in rows], [row["absent, to one filter"] for row in rows], "x--",
              color="#777777", label="millions")
    axis.set(title=f"{keys:,.0f} keys, few asked at once", xlabel="stages",
             ylabel="times one filter", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


def draw_stages(systems, folder, plt):
    table = [dict(zip(systems.tables["stages"]["columns"], row))
             for row in systems.tables["stages"]["rows"]]
    sizes = list(dict.fromkeys(row["keys"] for row in table))
    figure, axes = plt.subplots(1, len(sizes) + 1, figsize=(3.6 * len(sizes) + 3.6, 3.2),
                                squeeze=False)
    for axis, keys in zip(axes.flat, sizes):
        for policy, colour in (("tightening", "#0b6e4f"), ("fixed", "#2f6db5")):
            rows = [row for row in table if row["keys"] == keys and row["policy"] == policy]
            axis.plot([row["stages"] for row in rows], [row["ns, absent"] for row in rows], "o-",
                      color=colour, label=policy)
            rows = [row for row in rows if row["stages apart: absent"] != ""]
            axis.plot([row["stages"] for row in rows],
                      [row["stages apart: absent"] for row in rows], "x--", color=colour,
                      linewidth=1, label=f"{policy}, one by one")
        one = next(row for row in table if row["keys"] == keys and row["policy"] == "one filter")
        axis.axhline(one["ns, absent"], color="#777777", linestyle="--", linewidth=1,
                     label="one filter for all keys")
        axis.set(title=f"{keys:,.0f} keys", xlabel="stages", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("ns per absent key")
    axes[0][0].legend(fontsize=7)
    draw_few_keys(systems, table, sizes[-1], axes[0][-1])
    figure.tight_layout()
    figure.savefig(folder / "stages.svg", metadata={"Date": None})
    plt.close(figure)


def draw_systems(systems, folder, matplotlib):
    import matplotlib.pyplot as plt

    drawn = []
    if "stages" in systems.tables and "few_keys" in systems.tables:
        draw_stages(systems, folder, plt)
        drawn.append("stages.svg")
    if "index" in systems.tables:
        table = [dict(zip(systems.tables["index"]["columns"], row))
                 for row in systems.tables["index"]["rows"]]
        kinds = [kind for kind in dict.fromkeys(row["value"] for row in table)
                 if sum(row["value"] == kind for row in table) > 1]
        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
        colours = ("#0b6e4f", "#2f6db5", "#c0562f", "#8a6d3b")
        for kind, colour in zip(kinds, colours):
            rows = [row for row in table if row["value"] == kind]
            rates = [float(row["rate of a region"].rstrip(" %")) for row in rows]
            axes[0].plot(rates, [row["requests, measured"] for row in rows], "o", color=colour,
                         label=f"{kind} value")
            axes[0].plot(rates, [row["expected of these filters"] for row in rows], "-",
                         color=colour, linewidth=1)
            axes[1].plot(rates, [row["µs per query"] for row in rows], "o-", color=colour)
            axes[1].plot(rates, [row["µs broadcast"] for row in rows], "x--", color=colour,
                         linewidth=1)
        broadcast = table[0]["broadcast"]
        axes[0].axhline(broadcast, color="#777777", linestyle="--", linewidth=1,
                        label=f"broadcast: {broadcast:.0f}")
        for axis in axes:
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("false-positive rate of a region, %")
            axis.grid(alpha=0.3)
        axes[0].set_title("requests per query (line: expected)")
        axes[1].set_title("µs per query (dashed: broadcast)")
        axes[0].legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(folder / "index_requests.svg", metadata={"Date": None})
        plt.close(figure)
        drawn.append("index_requests.svg")
    bars = [name for name in ("bank", "growing_bank") if name in systems.tables]
    if bars:
        figure, axes = plt.subplots(1, len(bars), figsize=(4.2 * len(bars), 3.6), squeeze=False)
        titles = {"bank": "1,024 members of 10⁵ keys", "growing_bank": "members of 1 to 3 stages"}
        for axis, name in zip(axes.flat, bars):
            what = [w.replace(", ns per key", "").replace(", one call", "")
                    for w in systems.column(name, "what")]
            faster = [alone / bank for bank, alone in zip(systems.column(name, "bank"),
                                                          systems.column(name, "members alone"))]
            axis.barh(range(len(what)), faster, left=0,
                      color=["#0b6e4f" if f >= 1 else "#c0562f" for f in faster])
            axis.axvline(1, color="#333333", linewidth=0.8)
            axis.set_xscale("log")
            axis.set_yticks(range(len(what)), what, fontsize=6)
            axis.invert_yaxis()
            axis.set_xlabel("members alone ÷ bank (right: the bank is cheaper)", fontsize=7)
            axis.set_title(titles[name], fontsize=9)
        figure.tight_layout()
        figure.savefig(folder / "bank.svg", metadata={"Date": None})
        plt.close(figure)
        drawn.append("bank.svg")
    return drawn


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path,
                        help="a file of bench/results/ (default: the newest full run)")
    parser.add_argument("--systems", type=Path,
                        help="the same for banks and indexes (default: the newest such run)")
    parser.add_argument("--root", type=Path, default=root,
                        help="where README.md and docs/ are (default: this project)")
    parser.add_argument("--print", action="store_true", dest="only_print",
                        help="print all tables and write nothing")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 when a table is not what the results give")
    args = parser.parse_args()

    path = args.results or newest(root / "bench" / "results", "full")
    results = tables.Results(json.loads(path.read_text()), path.name)
    made = {name: make(results) for name, make in tables.TABLES.items()}
    path = args.systems or newest(root / "bench" / "results", "systems")
    systems = tables.Systems(json.loads(path.read_text()), path.name)
    made |= {name: tables.of_program(systems, name) for name in SYSTEMS}
    if args.only_print:
        for name, table in made.items():
            print(f"## {name}\n\n{table}")
        return
    before = pages(args.root)
    changed = {page: text for page, text in fill_in(before, made).items() if text != before[page]}
    if args.check:
        if changed:
            fail("out of date: " + ", ".join(changed))
        return
    matplotlib = load_matplotlib()
    # Only now, when all markers are known to be there.
    for name, text in changed.items():
        (args.root / name).write_text(text)
        print(f"{name}: tables updated")
    images = args.root / "docs" / "img"
    for image in draw(results, images, matplotlib) + draw_systems(systems, images, matplotlib):
        print(f"docs/img/{image}: drawn")


if __name__ == "__main__":
    main()
