from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(ksi: Callable[..., Result], shell: str) -> None:
    result = ksi("completion", shell)
    assert result.exit_code == 0
    assert f"_KSI_COMPLETE={shell}_complete" in result.stdout


def test_other_shells(ksi: Callable[..., Result]) -> None:
    assert ksi("completion", "csh").exit_code == 2
