"""`sluice completion`."""

import click
from click.shell_completion import get_completion_class

from sluice.cli.kit.terminal import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      source <(sluice completion bash)
      sluice completion zsh > ~/.zfunc/_sluice
      sluice completion fish > ~/.config/fish/completions/sluice.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    echo(complete(ctx.find_root().command, {}, "sluice", "_SLUICE_COMPLETE").source())
