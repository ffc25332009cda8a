"""Writes docs/rights.md: who may do what on the server of a cell.

python -m tests.unit.docs.rights_page
"""

from collections.abc import Iterator
from pathlib import Path

from sluice.rights.parties import BUDGET, BUDGET_USER, Party, Service
from tests.support.rights_matrix import MANAGER, NAMESPACE, USERS, Probe, allowed, everybody, probes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rights.md"

HEAD = f"""# Who may do what

Written by `make docs`, of the roles in `libs/sluice/rights/parties.py`.
`tests/integration/deploy/test_matrix.py` tries each line with each user on a real server, and
headers of messages, too; `test_attacks.py` beside it has what was tried by hand. What is not here
nobody may do.

**Services** may make consumers that deliver wherever they want, so they are trusted with the log:
it is theirs. They are what `sluice auth init` makes, and `{BUDGET_USER}`, the controller `{BUDGET}` of
admission checks.

**Parties** (in italics) have accounts of their own, ask JetStream through the gate, and get answers
only there ([0030](decisions/0030-accounts-and-a-gate.md)). What goes through the gate is checked by
subject and content, too. A consumer's name is a key: it has 128 bits, and nobody can list names.
There is one of each role here, as in `sluice auth add`:

"""

NOTES = (
    "",
    f"`{NAMESPACE}` stands for the namespaces of a team or a pool; what a team asks the api service is",
    "answered of these only ([deploy](deploy.md#what-a-team-sees)). Bounds of teams (queues, rate, size) are",
    "no rights, and not here: [deploy](deploy.md#what-a-team-may-say). *link* is that of a manager, the cell",
    f"`{MANAGER}`, which places jobs here ([cells](cells.md)): its own are those whose names end as its do.",
)


def roles() -> Iterator[str]:
    """Yield the table of the parties."""
    yield from ("| user | role | of |", "|---|---|---|")
    for user in USERS:
        about = ", ".join(f"`{name}`" for name in (*user.namespaces, user.controller, user.manager) if name)
        role = f"{user.role}, `--follows`" if user.follows else user.role
        yield f"| *{user.name}* | {role} | {about or 'all'} |".replace("check_", "check\\_")


def rows(users: list[Service | Party]) -> Iterator[str]:
    """Yield the lines of the tables, a table for what is said and for each stream."""
    about = None
    for probe in probes("main"):
        if probe.about != about:
            about = probe.about
            title = "What is said" if not about else f"`{about}`" if "_" in about else about
            yield from ("", f"## {title}", "", "| | who |", "|---|---|")
        yield f"| {probe.what} | {who(users, probe)} |"


def who(users: list[Service | Party], probe: Probe) -> str:
    """Return the users that may, parties in italics."""
    may = [one for one in users if allowed(one, probe)]
    names = (f"*{one.user}*" if isinstance(one, Party) else one.user for one in may)
    return ", ".join(name.replace("_", "\\_") for name in names) or "nobody"


def page() -> str:
    """Return the whole page."""
    return HEAD + "\n".join((*roles(), *NOTES, *rows(everybody("main")))) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
