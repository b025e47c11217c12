"""The machine code of this checkout, for archives that are made of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from sparkbleach.kernel import jit


def give_machine_code(cache: Path) -> None:
    """Put what this checkout has compiled where archives of it look for it: it is what they would compile.

    Args:
        cache: A user's cache, as XDG_CACHE_HOME names it.
    """
    target = cache / "sparkbleach" / f"kernel-{jit._STAMP[:16]}"
    kernel = Path(jit.__file__).parent
    for path in kernel.rglob("__pycache__/*.nb?"):
        package = target / path.parent.parent.relative_to(kernel)
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, package)
