"""`sluice check`: admission checks, for those who write them and those who run them."""

import click

from .check_list import describe_check, list_checks
from .check_new import new_check


@click.group()
def check() -> None:
    """Look at admission checks, or begin to write one."""


check.add_command(list_checks)
check.add_command(describe_check)
check.add_command(new_check)
