"""python -m benchmarks.naming [PROGRAM …] [--json] [--page docs/evidence/naming.md]"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks import naming
from benchmarks.naming import report, run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.naming", description=naming.__doc__
    )
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help="all, if none is named"
    )
    parser.add_argument(
        "--json", action="store_true", help="one line a program, for machines"
    )
    parser.add_argument(
        "--page",
        type=Path,
        help="put the tables into this page: docs/evidence/naming.md",
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out the run with detection off"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the recorded runs here, and use those that are",
    )
    parser.add_argument(
        "--list", action="store_true", help="say which programs there are"
    )
    args = parser.parse_args()
    chosen = run.programs(args.programs)
    if args.list:
        print("\n".join(f"{p.name:24} {p.framework}" for p in chosen))
        return
    results = []
    for program in chosen:
        results.append(run.measure(program, not args.quick, args.keep))
        print(
            json.dumps(report.as_json(results[-1]))
            if args.json
            else report.text(results[-1]),
            flush=True,
        )
    if args.page:
        args.page.write_text(report.put_into(args.page.read_text(), results))
    raise SystemExit(1 if any(result.failures() for result in results) else 0)


if __name__ == "__main__":
    main()
