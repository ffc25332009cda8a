"""`sluice version`."""

import click

from sluice import __version__
from sluice.cli.kit.terminal import echo


@click.command()
def version() -> None:
    """Print the version of this command."""
    echo(f"sluice {__version__}")
