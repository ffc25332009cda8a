"""`sluice check`: admission checks, for those who write them and those who run them."""

import click

from .answer import approve, reject, retry
from .list import describe_check, list_checks
from .new import new_check


@click.group()
def check() -> None:
    """Look at admission checks, answer them by hand, or begin to write one.

    `approve`, `reject` and `retry` publish the verdict that the check's controller would, for the present
    attempt; they also work when no controller runs.
    """


check.add_command(list_checks)
check.add_command(describe_check)
check.add_command(new_check)
for _answer in (approve, reject, retry):
    check.add_command(_answer)
