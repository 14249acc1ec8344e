"""From a provider object, as agents and settings hold it, to a provider.

Each type is one module with a ``Spec`` (a msgspec struct tagged with the type) and a ``build``, or
a ``wrap`` if it is a provider around the one that its spec names by *of*.
Modules are loaded when the first provider of their type is built: the HTTP client alone would
cost a third of the daemon's start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

import msgspec

from ksi_daemon.errors import InvalidData, nearest
from ksi_daemon.providers.model import Provider

__all__ = ["PROVIDERS", "build", "spec_of"]

# A new type is one file and one row here.
PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "ksi_daemon.providers.anthropic",
        "cli": "ksi_daemon.providers.cli",
        "faulty": "ksi_daemon.providers.faulty",
        "gemini": "ksi_daemon.providers.gemini",
        "ollama": "ksi_daemon.providers.ollama",
        "openai": "ksi_daemon.providers.openai",
        "scripted": "ksi_daemon.providers.scripted",
    }
)


class _Module(Protocol):
    @property
    def Spec(self) -> type[msgspec.Struct]: ...

    def build(self, spec: msgspec.Struct) -> Provider: ...

    def wrap(self, spec: msgspec.Struct, provider: Provider) -> Provider: ...


def build(
    spec: Mapping[str, Any], inner: Callable[[Mapping[str, Any]], Provider] | None = None
) -> Provider:
    """Return the provider that *spec* describes. It connects at its first completion.

    *inner* makes the provider that another is wrapped around. Raise InvalidData that names the
    field and the remedy.
    """
    module = _module(spec.get("type"))
    converted = spec_of(spec)
    if hasattr(module, "wrap"):
        return module.wrap(converted, (inner or build)(spec["of"]))
    return module.build(converted)


def spec_of(spec: Mapping[str, Any]) -> msgspec.Struct:
    """Return *spec* as its type has it, with what it leaves out; raise InvalidData."""
    module = _module(spec.get("type"))
    try:
        return msgspec.convert(spec, module.Spec)
    except msgspec.ValidationError as exc:
        raise InvalidData(f"provider: {exc}", hint=_hint(spec, module.Spec)) from exc


def _module(kind: Any) -> _Module:
    if isinstance(kind, str) and kind in PROVIDERS:
        return cast(_Module, import_module(PROVIDERS[kind]))
    close = nearest(kind, PROVIDERS) if isinstance(kind, str) else None
    raise InvalidData(
        f"provider: no type {kind!r}" if kind is not None else "provider: the type is missing",
        hint=f"did you mean {close!r}?" if close else f"types: {', '.join(sorted(PROVIDERS))}",
    )


def _hint(spec: Mapping[str, Any], struct: type[msgspec.Struct]) -> str:
    """Return the field that an unknown one was meant to be, or all fields."""
    fields = struct.__struct_fields__
    unknown = [name for name in spec if name != "type" and name not in fields]
    close = nearest(unknown[0], fields) if unknown else None
    return f"did you mean {close!r}?" if close else f"fields: {', '.join(fields)}"
