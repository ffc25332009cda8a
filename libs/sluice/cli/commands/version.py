"""`sluice version`."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click


@click.command()
def version() -> None:
    """Print the version of this command."""
    try:
        click.echo(f"sluice {installed('sluice')}")
    except PackageNotFoundError:
        click.echo("sluice (not installed)")
