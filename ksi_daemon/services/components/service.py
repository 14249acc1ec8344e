"""The service: what can be asked of components, and who may change them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from ksi_daemon.component import Component, parse, render
from ksi_daemon.composition import Composed, compose
from ksi_daemon.errors import ComponentError, Conflict, Denied
from ksi_daemon.router import Context, Router, handles
from ksi_daemon.services.components.check import problems
from ksi_daemon.services.components.files import Files, draft_name, is_draft, name_of_draft

__all__ = ["MAX_DRAFTS", "Components"]

# What an agent may have waiting for a person, each at most MAX_BYTES long.
MAX_DRAFTS: Final = 64
_MARKDOWN: Final = {"contentMediaType": "text/markdown"}


class Name(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class List(msgspec.Struct, forbid_unknown_fields=True):
    """Only components of *component_type*, if given."""

    component_type: str | None = None


class Validate(msgspec.Struct, forbid_unknown_fields=True):
    """*content* is checked as if it were the file of the component *name*."""

    name: str
    content: Annotated[str, msgspec.Meta(extra_json_schema=_MARKDOWN)] | None = None


class Render(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    variables: dict[str, str] = msgspec.field(default_factory=dict)


class Create(msgspec.Struct, forbid_unknown_fields=True):
    """*content* is the whole file: front matter and text."""

    name: str
    content: Annotated[str, msgspec.Meta(extra_json_schema=_MARKDOWN)]
    overwrite: bool = False


class Promote(msgspec.Struct, forbid_unknown_fields=True):
    """*name* is the draft's whole name; *to* what it shall be called, by default its own.

    *digest* is that of the draft that was looked at: one that is another by now stays a draft.
    """

    name: str
    to: str | None = None
    digest: str | None = None
    overwrite: bool = False


class Components:
    """The components below *root*, and those below *base* that it does not have itself."""

    def __init__(self, router: Router, root: Path, base: Path | None = None) -> None:
        self._router = router
        self._files = Files(root, base)

    def load_given(self, given: str, may_be_path: bool) -> Component:
        """Return what *given* names with all its parts in it; raise KsiError.

        It is a component's name, or if *may_be_path* the path of a file of a person's.
        """
        component = self._files.load_given(given, may_be_path)
        return compose(component, self._files.load_usable).component

    def profiles(self) -> list[str]:
        """Return the names of the components that are profiles, sorted."""
        return [name for name in self._files.names() if name.startswith("profiles/")]

    @handles("composition:list", effect="observe", example={"component_type": "agent"})
    def list_components(self, data: List, ctx: Context) -> dict[str, Any]:
        """List the components with their type and description, and which are drafts."""
        rows, broken = [], []
        for name in self._files.names():
            try:
                component = self._files.load(name)
            except ComponentError as exc:
                broken.append({"name": name, "error": exc.message})
                continue
            if data.component_type in (None, component.component_type):
                rows.append(_listed(component))
        return {"components": rows, "broken": broken}

    @handles("composition:get_component", effect="observe", example={"name": "agents/greeter"})
    def get_component(self, data: Name, ctx: Context) -> dict[str, Any]:
        """Return one component as its file has it: its fields, its text, the file's digest."""
        ctx.outside = is_draft(data.name)
        text = self._files.text(data.name)
        component: dict[str, Any] = msgspec.to_builtins(parse(text, name=data.name))
        return component | {"digest": _digest(text)}

    @handles("composition:render_component", effect="observe", example={"name": "agents/greeter"})
    def render_component(self, data: Render, ctx: Context) -> dict[str, Any]:
        """Return a component's text with its variables filled in, and the tree of its parts."""
        ctx.outside = is_draft(data.name)
        composed = self._composed(data.name)
        return {"text": render(composed.component, data.variables), "tree": composed.tree}

    @handles("composition:inspect", effect="observe", example={"name": "agents/greeter"})
    def inspect(self, data: Name, ctx: Context) -> dict[str, Any]:
        """Tell what a component is made of: its parts, and where each of its fields is from."""
        composed = self._composed(data.name)
        return {
            "name": data.name,
            "tree": composed.tree,
            "origins": composed.origins,
            "component": composed.component,
        }

    @handles("composition:validate", effect="observe", example={"name": "agents/greeter"})
    def validate(self, data: Validate, ctx: Context) -> dict[str, Any]:
        """Tell all that is wrong with a component: references, names, examples."""
        text = self._files.text(data.name) if data.content is None else data.content
        found = problems(data.name, text, self._loader(data.name), self._router.registry)
        return {"name": data.name, "valid": not found, "problems": found}

    @handles(
        "composition:create_component",
        keeps=True,
        example={"name": "agents/scout", "content": "---\ncomponent_type: agent\n---\nYou scout."},
    )
    def create_component(self, data: Create, ctx: Context) -> dict[str, Any]:
        """Write a component; one of an agent is a draft until a person promotes it."""
        name = data.name if ctx.principal.operator else self._draft(data.name, ctx)
        self._files.write(name, data.content, overwrite=data.overwrite)
        found = problems(name, data.content, self._loader(name), self._router.registry)
        return {"name": name, "draft": is_draft(name), "problems": found}

    @handles(
        "composition:promote",
        effect="admin",
        example={"name": "agents_drafts/scribe/agents/scout", "to": "agents/scout"},
    )
    def promote(self, data: Promote, ctx: Context) -> dict[str, Any]:
        """Make an agent's draft a component that others can use."""
        if not ctx.principal.operator:
            raise Denied(f"{ctx.principal.source} is no person, and persons promote drafts")
        name = data.to or name_of_draft(data.name)
        text = self._files.text(data.name)
        if data.digest not in (None, _digest(text)):
            raise Conflict(f"{data.name!r} has changed since you looked at it", code="changed")
        self._files.write(name, text, overwrite=data.overwrite)
        self._files.remove(data.name)
        return {"name": name}

    def _composed(self, name: str) -> Composed:
        return compose(self._files.load(name), self._loader(name))

    def _loader(self, name: str) -> Any:
        """Return what loads the parts of component *name*: only a draft may be made of drafts."""
        return self._files.load if is_draft(name) else self._files.load_usable

    def _draft(self, name: str, ctx: Context) -> str:
        """Return the name of an agent's draft; raise Conflict if it has too many others."""
        own = draft_name(ctx.agent_id or "unknown", "")
        draft = own + name
        others = [each for each in self._files.names() if each.startswith(own)]
        if len(others) >= MAX_DRAFTS and draft not in others:
            raise Conflict(
                f"{MAX_DRAFTS} drafts wait for a person already",
                code="too_many_drafts",
                hint="overwrite one of them",
            )
        return draft


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _listed(component: Component) -> dict[str, Any]:
    row = {
        "name": component.name,
        "component_type": component.component_type,
        "description": component.description,
    }
    return row | {"draft": True} if is_draft(component.name) else row
