"""Optional packages: imported when they are needed, asked for by name when they are missing."""
from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingExtra(ImportError):
    """A package that an extra installs is not there; the message says what to type."""


def require(module: str, purpose: str, extra: str = "report") -> ModuleType:
    """The module, imported now. MissingExtra: `<purpose> needs <package>: pip install ...`."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"{purpose} needs {package}: pip install 'tickwheel[{extra}]'"
        raise MissingExtra(message, name=package) from error
