#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the reports of bank_bench, index_bench and the like (--out) into one result file."""

import argparse
import datetime
import json
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("reports", type=Path, nargs="+")
    args = parser.parse_args()
    context, tables = None, {}
    for path in args.reports:
        report = json.loads(path.read_text())
        if context not in (None, report["context"]):
            sys.exit(f"gather.py: {path}: another machine or commit than the reports before it")
        context = report["context"]
        for name, table in report["tables"].items():
            if name in tables:
                sys.exit(f"gather.py: {path}: there is a table '{name}' already")
            tables[name] = table | {"notes": report["notes"]}
    context = context | {"matrix": "systems",
                         "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds")}
    args.output.write_text(json.dumps({"schema": 1, "context": context, "tables": tables},
                                      indent=1, ensure_ascii=False) + "\n")
    print(f"{args.output}: {', '.join(tables)}")


if __name__ == "__main__":
    main()
