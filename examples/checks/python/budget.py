"""A budget of core-hours per namespace, kept in a SQLite database: an admission check of an afternoon.

    sqlite3 budget.db "insert into budgets values ('team-a', 100)"
    python budget.py

A job is charged its cores for the longest time that it may run (an hour, if it does not say). What does not
fit waits until somebody raises the budget; a job that did not get its turn is not charged.
"""

import os
import sqlite3

from sluice.sdk.checks import Controller, Pending, Ready, Rejected, Request, Verdict

DATABASE = os.environ.get("BUDGET_DB", "budget.db")
SCHEMA = """
    create table if not exists budgets (namespace text primary key, core_hours real not null);
    create table if not exists charges (uid text primary key, namespace text, core_hours real not null);
"""

app = Controller("example.com/budget")


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(DATABASE)
    connection.executescript(SCHEMA)
    return connection


def cost(request: Request) -> float:
    """Core-hours that a workload may use."""
    return request.amount("cpu") * (request.workload.max_execution_time_s or 3600) / 3600


@app.check
def budget(request: Request) -> Verdict:
    """Charge the workload, if its namespace can afford it. Not `async`: it runs in a thread."""
    connection = database()
    try:
        with connection:
            # One process at a time decides; a repetition finds the charge made already.
            connection.execute("begin immediate")
            if connection.execute("select 1 from charges where uid = ?", [request.uid]).fetchone():
                return Ready()
            found = connection.execute(
                "select core_hours from budgets where namespace = ?", [request.namespace]
            )
            if (row := found.fetchone()) is None:
                return Rejected(f"namespace {request.namespace} has no budget")
            charged = "select coalesce(sum(core_hours), 0) from charges where namespace = ?"
            (used,) = connection.execute(charged, [request.namespace]).fetchone()
            if used + cost(request) > row[0]:
                message = (
                    f"{used:g} of {row[0]:g} core-hours are spoken for, {cost(request):g} more are needed"
                )
                return Pending(message, recheck_after=30)
            charge = (request.uid, request.namespace, cost(request))
            connection.execute("insert into charges values (?, ?, ?)", charge)
            return Ready(message=f"{used + cost(request):g} of {row[0]:g} core-hours")
    finally:
        connection.close()


@budget.on_stop
def give_back(request: Request) -> None:
    """Take the charge back of a workload that never ran."""
    if not request.admitted:
        connection = database()
        with connection:
            connection.execute("delete from charges where uid = ?", [request.uid])
        connection.close()


if __name__ == "__main__":
    app.run()
