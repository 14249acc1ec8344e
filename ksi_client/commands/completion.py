"""``ksi completion``: the script that makes a shell complete ``ksi``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete ksi, with the names of events and agents.

    \b
      bash    eval "$(ksi completion bash)"       in ~/.bashrc
      zsh     eval "$(ksi completion zsh)"        in ~/.zshrc
      fish    ksi completion fish | source        in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click completes no {shell}")
    click.echo(kind(context.find_root().command, {}, "ksi", "_KSI_COMPLETE").source())
