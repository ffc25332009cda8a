"""`sluice version`."""

import click

from sluice import __version__


@click.command()
def version() -> None:
    """Print the version of this command."""
    click.echo(f"sluice {__version__}")
