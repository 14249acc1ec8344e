from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.component import MAX_BYTES, MAX_RENDERED, Component, Limits, parse, render
from ksi_daemon.errors import ComponentError, InvalidData
from tests.growth import LINEAR, doubling

SHIPPED = Path(__file__).parents[3] / "components"


def front(*lines: str, body: str = "Text.") -> str:
    return "\n".join(("---", *lines, "---", body))


def fields(*lines: str) -> Component:
    return parse(front(*lines), name="n")


@pytest.mark.parametrize(
    ("text", "component"),
    [
        pytest.param("Just text.", Component(name="n", text="Just text.\n"), id="no front matter"),
        pytest.param("", Component(name="n", text="\n"), id="empty"),
        pytest.param("---\n---\nText.", Component(name="n", text="Text.\n"), id="empty front"),
        pytest.param("---\n\n---\n", Component(name="n", text="\n"), id="empty body"),
        pytest.param(
            "---\ndescription: d\n---",
            Component(name="n", text="\n", description="d"),
            id="no body",
        ),
        pytest.param(
            "---\r\ndescription: d\r\n---\r\nText.\r\n",
            Component(name="n", text="Text.\n", description="d"),
            id="CRLF",
        ),
        pytest.param(
            "\ufeff---\ndescription: d\n---\nText.",
            Component(name="n", text="Text.\n", description="d"),
            id="byte order mark",
        ),
        pytest.param(
            "Before\n---\ndescription: d\n---\n",
            Component(name="n", text="Before\n---\ndescription: d\n---\n"),
            id="front matter is at the front",
        ),
        pytest.param(
            "---\ndescription: d\nText without an end.",
            Component(name="n", text="---\ndescription: d\nText without an end.\n"),
            id="front matter without an end is text",
        ),
        pytest.param(
            "---\ndescription: d\n---\nText\n---\nmore\n",
            Component(name="n", text="Text\n---\nmore\n", description="d"),
            id="a rule in the text",
        ),
    ],
)
def test_parse(text: str, component: Component) -> None:
    assert parse(text, name="n") == component


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        pytest.param("version: 1.10", "version", "1.10", id="a version keeps its zero"),
        pytest.param("version: 2", "version", "2", id="a whole version"),
        pytest.param("description: no", "description", "no", id="no is not false"),
        pytest.param("description: 2026-01-31", "description", "2026-01-31", id="no dates"),
        pytest.param("model: null", "model", None, id="null is absent"),
        pytest.param("tools: Read, Grep", "tools", ["Read", "Grep"], id="comma form"),
        pytest.param("tools: [a:b, 'c:*']", "tools", ["a:b", "c:*"], id="list"),
        pytest.param("tools: []", "tools", [], id="no tools is not the same as none said"),
        pytest.param("limits: {turns: 5}", "limits", Limits(turns=5), id="limits"),
        pytest.param("protocol: {preset: ksi}", "protocol", {"preset": "ksi"}, id="protocol"),
        pytest.param("script: {replies: [a]}", "script", {"replies": ["a"]}, id="script"),
        pytest.param("name: other", "name", "n", id="the path names it, not the front matter"),
        pytest.param("color: blue", "name", "n", id="fields of other programs"),
        pytest.param(
            "variables: {n: 3, on: true, f: 1.0, off: no}",
            "variables",
            {"n": "3", "on": "true", "f": "1.0", "off": "no"},
            id="values are text",
        ),
    ],
)
def test_fields(line: str, field: str, value: Any) -> None:
    assert getattr(fields(line), field) == value


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(["- a", "- b"], "must be a mapping with text keys", id="a list"),
        pytest.param(["1: a"], "must be a mapping with text keys", id="a key that is no text"),
        pytest.param(["just words"], "must be a mapping with text keys", id="a scalar"),
        pytest.param(["a: b: c"], "not usable YAML: mapping values", id="not YAML"),
        pytest.param(["a: &x [1]", "b: *x"], "aliases are not allowed", id="alias"),
        pytest.param(["a: " + "[" * 21 + "]" * 21], "nests deeper than 20", id="depth"),
        pytest.param(["a: " + "[" * 5000], "nests deeper than 20", id="great depth"),
        pytest.param(["a: !!python/object/apply:os.getpid []"], "could not determine", id="tag"),
        pytest.param(["a: !!int x"], "not usable YAML", id="a number that is none"),
        pytest.param(["a: 1", "...", "b: 2"], "expected <document start>", id="two documents"),
        pytest.param(["limits: {turns: 0}"], "Expected `int` >= 1 - at `$.limits.turns`", id="low"),
        pytest.param(["limits: {turn: 1}"], "contains unknown field `turn`", id="misspelt limit"),
        pytest.param(
            ["profile: p", "tools: {a: b}"], "Expected `array | null`, got `object`", id="type"
        ),
        pytest.param(["subscriptions: 'a:*'"], "Expected `array`, got `str`", id="no list"),
    ],
)
def test_front_matter_that_cannot_be_used(lines: list[str], message: str) -> None:
    with pytest.raises(ComponentError) as caught:
        fields(*lines)
    assert caught.value.code == "component_invalid"
    assert caught.value.message.startswith("'n'")
    assert message in caught.value.message


def test_a_file_may_not_be_larger_than_the_limit() -> None:
    assert parse("x" * MAX_BYTES, name="n").text == "x" * MAX_BYTES + "\n"
    with pytest.raises(ComponentError, match="'n' is larger than 65536 bytes"):
        parse("x" * MAX_BYTES + "y", name="n")


def test_deep_nesting_is_refused_before_it_costs() -> None:
    def cost(size: int) -> None:
        with pytest.raises(ComponentError):
            fields("a: " + "['" * size)

    assert doubling(cost, 10_000) < LINEAR


@pytest.mark.parametrize(
    ("text", "variables", "given", "rendered"),
    [
        pytest.param("Hi {{name}}.", {"name": "Ada"}, {}, "Hi Ada.", id="declared"),
        pytest.param("Hi {{name}}.", {"name": "Ada"}, {"name": "Bo"}, "Hi Bo.", id="given wins"),
        pytest.param("Hi {{ name }}.", {}, {"name": "Bo"}, "Hi Bo.", id="spaces"),
        pytest.param("Hi {{name|you}}.", {}, {}, "Hi you.", id="default in place"),
        pytest.param("Hi {{name|}}.", {}, {}, "Hi .", id="empty default"),
        pytest.param("{{name|you}}", {"name": "Ada"}, {}, "Ada", id="a value beats the default"),
        pytest.param("{{a}}{{a}}", {"a": "x"}, {}, "xx", id="twice"),
        pytest.param("{{a}}", {"a": "{{b}}", "b": "x"}, {}, "{{b}}", id="one pass"),
        pytest.param("{{a}}", {"a": r"\g<0> \1"}, {}, r"\g<0> \1", id="no template in a value"),
        pytest.param("{{a b}} {{1}} {a}", {"a": "x"}, {}, "{{a b}} {{1}} {a}", id="no placeholder"),
    ],
)
def test_render(text: str, variables: dict[str, str], given: dict[str, str], rendered: str) -> None:
    assert render(Component(text=text, variables=variables), given) == rendered


@pytest.mark.parametrize(
    ("text", "given", "named"),
    [
        pytest.param("{{a}} {{b}}", {"a": "x"}, "{{b}}", id="one is given"),
        pytest.param("{{a|x}} {{b}}", {}, "{{b}}", id="one has a default"),
        pytest.param("{{b}} {{c}} {{b}}", {}, "{{b}}, {{c}}", id="two, each told once"),
    ],
)
def test_a_placeholder_without_a_value_is_an_error(
    text: str, given: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidData) as caught:
        render(Component(name="n", text=text), given)
    assert caught.value.message == f"component 'n': no value for {named}"
    assert caught.value.details == {"path": "b"}


@pytest.mark.parametrize(
    ("component", "hint"),
    [
        pytest.param(
            Component(name="n", variables={"style": "x"}), "did you mean 'style'?", id="near"
        ),
        pytest.param(
            Component(name="n", text="{{style|x}}"), "did you mean 'style'?", id="in place"
        ),
        pytest.param(
            Component(name="n", text="{{stlye}}", plain=((0, 9),)), None, id="plain text has none"
        ),
        pytest.param(Component(name="n"), None, id="none at all"),
    ],
)
def test_a_variable_that_there_is_none_for_is_an_error(
    component: Component, hint: str | None
) -> None:
    with pytest.raises(InvalidData, match="component 'n' has no variable 'stlye'") as caught:
        render(component, {"stlye": "x"})
    assert caught.value.hint == hint


def test_what_is_rendered_is_bounded() -> None:
    component = Component(name="n", text="{{a}}" * 1024, variables={"a": ""})
    assert len(render(component, {"a": "x" * 1024})) == MAX_RENDERED
    with pytest.raises(InvalidData, match="longer than 1048576 characters"):
        render(component, {"a": "x" * 1025})


@pytest.mark.parametrize(
    ("plain", "rendered"),
    [
        pytest.param((), "x x x", id="none of it"),
        pytest.param(((0, 17),), "{{a}} {{a}} {{a}}", id="all of it"),
        pytest.param(((6, 11),), "x {{a}} x", id="the middle"),
        pytest.param(((0, 5), (12, 17)), "{{a}} x {{a}}", id="both ends"),
        pytest.param(((0, 9), (11, 17)), "{{a}} {{a}} {{a}}", id="a border within"),
    ],
)
def test_nothing_is_filled_in_in_plain_text(
    plain: tuple[tuple[int, int], ...], rendered: str
) -> None:
    component = Component(text="{{a}} {{a}} {{a}}", variables={"a": "x"}, plain=plain)
    assert render(component, {}) == rendered


@pytest.mark.parametrize(
    ("lines", "is_plain"),
    [
        pytest.param(["name: x", "description: d", "tools: Read", "model: m"], True, id="foreign"),
        pytest.param(["description: d", "color: red"], True, id="a field of nobody here"),
        pytest.param([], True, id="none"),
        pytest.param(["variables: {a: b}"], False, id="variables"),
        pytest.param(["component_type: agent"], False, id="a type"),
        pytest.param(["profile: team", "color: red"], False, id="a profile"),
    ],
)
def test_what_has_no_field_of_ksis_own_is_plain(lines: list[str], is_plain: bool) -> None:
    component = parse(front(*lines, body="Hi {{name|you}}."), name="n")
    assert render(component, {}) == ("Hi {{name|you}}.\n" if is_plain else "Hi you.\n")


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        pytest.param("tools: Read, Grep ,Bash,", {"tools": ["Read", "Grep", "Bash"]}, id="commas"),
        pytest.param("tools: [Read, 5, 'x:y']", {"tools": ["Read", "x:y"]}, id="a list"),
        pytest.param("tools: {read: true, write: false}", {"tools": ["read"]}, id="switches"),
        pytest.param("tools: {read: {deep: true}}", {}, id="an object"),
        pytest.param("tools: '*'", {}, id="all: as if nothing was said"),
        pytest.param("tools: ['*', Read]", {}, id="all and one"),
        pytest.param("tools: ['state:*', 'a:b']", {"tools": ["state:*", "a:b"]}, id="events"),
        pytest.param("tools:", {}, id="nothing"),
        pytest.param("model: inherit", {}, id="that of whoever asks"),
        pytest.param("model: sonnet", {"model": "sonnet"}, id="an alias"),
        pytest.param("model: [a, b]", {}, id="models"),
        pytest.param("version: 2", {"version": "2"}, id="a number"),
        pytest.param("name: 5", {}, id="a name"),
    ],
)
def test_what_is_understood_of_files_of_other_programs(
    line: str, understood: dict[str, Any]
) -> None:
    assert fields("description: d", line) == Component(
        name="n", text="Text.\n", description="d", **understood
    )


def test_of_a_file_of_another_program_nothing_but_its_description_need_be_yaml() -> None:
    component = fields("description: Use it: often", "tools: [Read, Bash", "x: &a [*a]", "tags: *")
    assert component.description == "Use it: often"
    assert component.tools == ["Read", "Bash"]
    with pytest.raises(ComponentError, match="not usable YAML"):
        fields("description: Use it: often", "profile: team")
    with pytest.raises(ComponentError, match="not usable YAML"):
        fields("summary: Use it: often")


@given(st.text(max_size=200))
def test_any_text_is_a_component_or_an_error(text: str) -> None:
    try:
        component = parse(text, name="n")
    except ComponentError:
        return
    assert component.text.strip() in text


@pytest.mark.parametrize(
    "path", sorted(SHIPPED.rglob("*.md")), ids=lambda path: path.relative_to(SHIPPED).as_posix()
)
def test_every_component_that_is_shipped_renders(path: Path) -> None:
    component = parse(path.read_text(encoding="utf-8"), name=path.stem)
    assert component.description
    assert "{{" not in render(component, {})
