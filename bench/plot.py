#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regenerates the benchmark tables and plots of the documentation from bench/results/.

Tables stand between '<!-- table:NAME -->' and '<!-- /table -->', in README.md or a page of docs/.
Each table must have its marker on exactly one page, and each marker its table; otherwise nothing is
written. A table stays as it is if no result has rows for it. A figure that was not measured is
shown as 'n/a'.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import command_tables
import field_tables
import filter_tables
import gpu_tables
import python_tables
import spark_tables
import system_tables
import tables

MARKER = re.compile(r"(<!-- table:([a-z_]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def fail(message):
    sys.exit(f"plot.py: {message}")


def pages(root):
    """The texts of the files that may hold tables, by path relative to `root`."""
    files = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return {str(file.relative_to(root)): file.read_text() for file in files if file.is_file()}


# The machine of the main tables. The newest full runs on two others stand beside them.
HOME = "AMD EPYC (family 26 model 2)"
OTHERS = 2
# Runs of everything but filters, each in a file of its own.
SYSTEMS = ("systems", "travel", "python", "new", "hash", "spark", "command")


def newest_by_machine(folder, matrix):
    """The most recent result of such a run on each machine, the newest first. Skips old files, which have no
    rows."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        context = result["context"]
        if context.get("matrix") == matrix and "rows" in result:
            cpu = context.get("cpu_model")
            found[cpu] = max(found.get(cpu, ("", path)), (context["date"], path))
    return {cpu: path for cpu, (_, path) in sorted(found.items(), key=lambda item: item[1], reverse=True)}


def newest(folder, matrix):
    """The most recent result of such a run on any machine, or None."""
    return next(iter(newest_by_machine(folder, matrix).values()), None)


def fill_in(texts, made):
    """The texts by page, with all tables replaced except those for which `made` is empty."""
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
    return {page: MARKER.sub(
        lambda m: m.group(1) + made[m.group(2)] + m.group(3) if made[m.group(2)] else m.group(0), text)
            for page, text in texts.items()}


def load_matplotlib():
    """Called before anything is written. Printing and checking tables work without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        fail(f"{sys.executable} has no matplotlib (Debian: python3-matplotlib, for "
             "/usr/bin/python3)")
    matplotlib.use("svg")
    return matplotlib


def draw(results, folder, matplotlib):
    # A fixed salt, so that the same results give the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "scbf"
    matplotlib.rcParams["font.size"] = 9
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    styles = {"split_block": ("#0b6e4f", "o", 2.2), "split": ("#2f6db5", "s", 2.2),
              "blocked": ("#7a4fb5", "d", 1.2), "textbook": ("#c0562f", "^", 1.2), "libbloom": ("#8a6d3b", "v", 1.2),
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


def without_markup(text):
    """For a picture: 10<sup>5</sup> → 10⁵."""
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"<sup>(\d+)</sup>", lambda match: match[1].translate(raised), text)


def draw_few_keys(systems, n, axis):
    """The time relative to one filter, by the number of keys that are asked at once."""
    for batch, label, style in (("alone", "one key", "o-"), (8, "8 keys", "o-"), (64, "64 keys", "o-"),
                                ("all", "millions", "x--")):
        rows = systems.pick(op="miss", growth="tightening", n=n, batch=batch)
        axis.plot([row["stages"] for row in rows],
                  [row["ns"][1] / row["ns_one"][1] for row in rows], style, label=label,
                  color={"alone": "#0b6e4f", 8: "#2f6db5", 64: "#8a6d3b", "all": "#777777"}[batch])
    axis.set(title=f"{n:,.0f} keys, few asked at once", xlabel="stages",
             ylabel="times one filter", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


def draw_stages(systems, folder, plt):
    sizes = list(dict.fromkeys(row["n"] for row in systems.pick(op="miss", batch="all")))
    figure, axes = plt.subplots(1, len(sizes) + 1, figsize=(3.6 * len(sizes) + 3.6, 3.2),
                                squeeze=False)
    for axis, n in zip(axes.flat, sizes):
        for policy, colour in (("tightening", "#0b6e4f"), ("fixed", "#2f6db5")):
            rows = systems.pick(op="miss", batch="all", n=n, growth=policy)
            axis.plot([row["stages"] for row in rows], [row["ns"][1] for row in rows], "o-",
                      color=colour, label=policy)
            rows = [row for row in rows if "ns_apart" in row]
            axis.plot([row["stages"] for row in rows], [row["ns_apart"][1] for row in rows], "x--",
                      color=colour, linewidth=1, label=f"{policy}, one by one")
        one = systems.one(op="miss", batch="all", n=n, growth="tightening", stages=1)
        axis.axhline(one["ns_one"][1], color="#777777", linestyle="--", linewidth=1,
                     label="one filter for all keys")
        axis.set(title=f"{n:,.0f} keys", xlabel="stages", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("ns per absent key")
    axes[0][0].legend(fontsize=7)
    draw_few_keys(systems, sizes[-1], axes[0][-1])
    figure.tight_layout()
    figure.savefig(folder / "stages.svg", metadata={"Date": None})
    plt.close(figure)


def draw_index(systems, folder, plt):
    queries = systems.pick(op="query", table="generated")
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
    for (value, label), colour in zip(system_tables.VALUES.items(),
                                      ("#0b6e4f", "#2f6db5", "#c0562f", "#8a6d3b")):
        rows = [row for row in queries if row["value"] == value]
        rates = [100 * row["rate"] for row in rows]
        axes[0].plot(rates, [row["requests"] for row in rows], "o", color=colour,
                     label=label)
        axes[0].plot(rates, [row["expected"] for row in rows], "-", color=colour, linewidth=1)
        axes[1].plot(rates, [row["ns"][1] / 1000 for row in rows], "o-", color=colour)
        axes[1].plot(rates, [row["ns_broadcast"][1] / 1000 for row in rows], "x--", color=colour,
                     linewidth=1)
    broadcast = queries[0]["broadcast"]
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


def draw_banks(systems, kinds, folder, plt):
    figure, axes = plt.subplots(1, len(kinds), figsize=(4.2 * len(kinds), 3.6), squeeze=False)
    titles = {"one": "1,024 members of 10⁵ keys", "growing": "members of 1 to 3 stages"}
    for axis, kind in zip(axes.flat, kinds):
        lines = list(system_tables.bank_lines(systems, kind))
        what = [without_markup(w.replace(", ns per key", "").replace(", one call", "")) for w, *_ in lines]
        faster = [alone / bank for _, bank, alone, _ in lines]
        axis.barh(range(len(what)), [f - 1 for f in faster], left=1,
                  color=["#0b6e4f" if f >= 1 else "#c0562f" for f in faster])
        axis.axvline(1, color="#333333", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yticks(range(len(what)), what, fontsize=6)
        axis.invert_yaxis()
        axis.set_xlabel("members alone ÷ bank\n(right of 1: the bank is cheaper)", fontsize=7)
        axis.set_title(titles[kind], fontsize=9)
    figure.tight_layout()
    figure.savefig(folder / "bank.svg", metadata={"Date": None})
    plt.close(figure)


def with_rows(runs, **wanted):
    """The first run that has such rows, or None."""
    return next((run for run in runs if run.pick(**wanted)), None)


def draw_systems(runs, folder):
    import matplotlib.pyplot as plt

    drawn = []
    if systems := with_rows(runs, op="miss", batch="all"):
        draw_stages(systems, folder, plt)
        drawn.append("stages.svg")
    if systems := with_rows(runs, op="query", table="generated"):
        draw_index(systems, folder, plt)
        drawn.append("index_requests.svg")
    if systems := with_rows(runs, bank="one"):
        draw_banks(systems, [kind for kind in ("one", "growing") if systems.pick(bank=kind)], folder, plt)
        drawn.append("bank.svg")
    return drawn


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path,
                        help=f"a file of bench/results/ (default: the newest full run on {HOME})")
    parser.add_argument("--systems", type=Path,
                        help="the same for all but filters (default: the newest of each kind of run)")
    parser.add_argument("--root", type=Path, default=root,
                        help="where README.md and docs/ are (default: this project)")
    parser.add_argument("--print", action="store_true", dest="only_print",
                        help="print all tables and write nothing")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 when a table is not what the results give")
    args = parser.parse_args()

    folder = root / "bench" / "results"
    full = newest_by_machine(folder, "full")
    path = args.results or full.get(HOME)
    if path is None:
        fail(f"{folder}: no result of a full run; make one with scripts/bench --full, or name a file "
             "with --results")
    results = filter_tables.Results(json.loads(path.read_text()), path.name)
    home = results.context.get("cpu_model")
    others = [other for cpu, other in full.items() if cpu != home][:OTHERS]
    results.others = [filter_tables.Results(json.loads(other.read_text()), other.name) for other in others]
    made = {name: make(results) for name, make in filter_tables.TABLES.items()}
    paths = [args.systems] if args.systems else []
    paths += [found for matrix in SYSTEMS if (found := newest(folder, matrix))]
    runs = [tables.Systems(json.loads(path.read_text()), path.name) for path in paths]
    of_systems = (system_tables.TABLES | field_tables.TABLES | python_tables.TABLES | spark_tables.TABLES |
                  command_tables.TABLES)
    made |= {name: next((text for run in runs if (text := make(run))), None)
             for name, make in of_systems.items()}
    if gpu_path := newest(folder, "gpu"):
        on_gpu = tables.Systems(json.loads(gpu_path.read_text()), gpu_path.name)
        made |= {name: make(on_gpu) for name, make in gpu_tables.TABLES.items()}
    if missing := [name for name, table in made.items() if not table]:
        print(f"plot.py: {folder} has no rows for {', '.join(missing)}: left as they are",
              file=sys.stderr)
    if args.only_print:
        for name, table in made.items():
            if table:
                print(f"## {name}\n\n{table}")
        return
    before = pages(args.root)
    changed = {page: text for page, text in fill_in(before, made).items() if text != before[page]}
    if args.check:
        if changed:
            fail("out of date: " + ", ".join(changed))
        return
    matplotlib = load_matplotlib()
    # Pages are written last, once all markers have been found.
    for name, text in changed.items():
        (args.root / name).write_text(text)
        print(f"{name}: tables updated")
    images = args.root / "docs" / "img"
    for image in draw(results, images, matplotlib) + draw_systems(runs, images):
        print(f"docs/img/{image}: drawn")


if __name__ == "__main__":
    main()
