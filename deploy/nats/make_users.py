"""Writes `users.conf`: who may say what on the server of a cell, by `libs/sluice/rights`.

    python deploy/nats/make_users.py --cell main > deploy/nats/users.conf

Run it again for a cell with another name, or after a change there; a test keeps the file in step. Each
`--controller NAME` adds the user `check_<NAME>` for a controller of admission checks.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "libs"))

from sluice.rights.parties import parties, services
from sluice.rights.server_config import render


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the users of a cell's NATS server.")
    parser.add_argument("--cell", default="main", help="name of the cell (default: main)")
    parser.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="NAME",
        help="add a user for a controller of admission checks, as AdmissionChecks name it; may be repeated",
    )
    given = parser.parse_args()
    sys.stdout.write(
        render(given.cell, services(given.cell, given.controller), parties(given.cell, given.controller))
    )


if __name__ == "__main__":
    main()
