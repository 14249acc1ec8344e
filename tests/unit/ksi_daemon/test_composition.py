from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksi_daemon.component import Component, Limits, render
from ksi_daemon.composition import MAX_PARTS, MAX_TEXT, Composed, Part, compose
from ksi_daemon.errors import ComponentError, NotFound

PARTS = {
    "base": Component(text="Base.\n", model="small", tools=["a:b"], limits=Limits(turns=5)),
    "polite": Component(text="Be polite.\n", profile="team", tools=["c:d"], model="large"),
    "brief": Component(text="Be brief.\n", profile="agent", variables={"length": "short"}),
    "facts": Component(
        text="Facts of {{topic}}.\n", variables={"topic": "bees"}, model="no", tools=["no:no"]
    ),
    "sources": Component(text="Sources.\n", dependencies=["facts"]),
    "firm": Component(text="Firm.\n", extends="base", mixins=["polite"]),
    "loop-a": Component(extends="loop-b"),
    "loop-b": Component(dependencies=["loop-a"]),
    "odd": Component(text="Odd.\n", extends="gone"),
}


def load(name: str) -> Component:
    if name not in PARTS:
        raise NotFound("component", name, PARTS)
    return msgspec.structs.replace(PARTS[name], name=name)


def composed(**fields: object) -> Composed:
    return compose(Component(name="it", **fields), load)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"text": "It.\n"}, "It.\n", id="alone"),
        pytest.param({"text": "It.\n", "extends": "base"}, "Base.\n\nIt.\n", id="parent first"),
        pytest.param(
            {"text": "It.\n", "mixins": ["brief", "polite"], "extends": "base"},
            "Base.\n\nBe brief.\n\nBe polite.\n\nIt.\n",
            id="mixins in order",
        ),
        pytest.param(
            {"text": "It.\n", "dependencies": ["sources"], "extends": "base"},
            "Facts of {{topic}}.\n\nSources.\n\nBase.\n\nIt.\n",
            id="dependencies before all, theirs before them",
        ),
        pytest.param(
            {"text": "It.\n", "mixins": ["firm", "polite"], "dependencies": ["base"]},
            "Base.\n\nBe polite.\n\nFirm.\n\nIt.\n",
            id="each once, where it is met first",
        ),
        pytest.param({"extends": "base"}, "Base.\n", id="no text of its own"),
    ],
)
def test_the_order_of_the_texts(fields: dict[str, object], text: str) -> None:
    assert composed(**fields).component.text == text


@pytest.mark.parametrize(
    ("fields", "name", "value", "origin"),
    [
        pytest.param(
            {"model": "own", "extends": "base"}, "model", "own", "it", id="its own go first"
        ),
        pytest.param({"extends": "base"}, "model", "small", "base", id="the parent's"),
        pytest.param(
            {"extends": "base", "mixins": ["polite"]}, "model", "large", "polite", id="a mixin's"
        ),
        pytest.param(
            {"mixins": ["brief", "polite"]}, "profile", "agent", "brief", id="the first mixin's"
        ),
        pytest.param({"dependencies": ["facts"]}, "model", None, None, id="never a dependency's"),
        pytest.param(
            {"dependencies": ["facts"]}, "tools", None, None, id="a dependency gives no tools"
        ),
        pytest.param(
            {"extends": "base", "mixins": ["polite"], "tools": ["e:f", "a:b"]},
            "tools",
            ["a:b", "c:d", "e:f"],
            "base, polite, it",
            id="tools add up",
        ),
        pytest.param(
            {"mixins": ["brief"], "dependencies": ["facts"]},
            "variables",
            {"length": "short", "topic": "bees"},
            None,
            id="variables add up",
        ),
        pytest.param({"mixins": ["firm"]}, "model", "large", "polite", id="a mixin's mixin"),
        pytest.param({"component_type": "x", "mixins": ["polite"]}, "component_type", "x", None),
    ],
)
def test_where_fields_come_from(
    fields: dict[str, object], name: str, value: object, origin: str | None
) -> None:
    result = composed(**fields)
    assert getattr(result.component, name) == value
    assert result.origins.get(name) == origin


def test_the_text_of_another_program_stays_as_it_is() -> None:
    foreign = "{{ x | upper }} and {{y}}"
    skill = Component(name="skill", text=f"{foreign}\n", plain=((0, len(foreign)),))
    whole = Component(name="it", text="{{a}} {{y}}\n", variables={"a": "1", "y": "2"})

    def composed_as(**fields: list[str]) -> str:
        each = msgspec.structs.replace(whole, **fields)
        composed = compose(each, lambda name: skill if name == "skill" else load(name))
        return render(composed.component, {"a": "3"})

    assert composed_as(dependencies=["skill"]) == f"{foreign}\n\n3 2\n"
    assert composed_as(mixins=["base", "brief", "polite", "skill"]) == (
        f"Base.\n\nBe brief.\n\nBe polite.\n\n{foreign}\n\n3 2\n"
    )


def test_limits_add_up_field_by_field() -> None:
    result = composed(extends="base", limits=Limits(calls=3))
    assert result.component.limits == Limits(turns=5, calls=3)
    assert (result.origins["limits.turns"], result.origins["limits.calls"]) == ("base", "it")


def test_a_variable_of_ones_own_is_stronger_than_a_dependencys() -> None:
    result = composed(dependencies=["facts"], variables={"topic": "ants"})
    assert result.component.variables == {"topic": "ants"}
    assert result.origins["variables.topic"] == "it"


def test_the_tree_says_what_each_part_gives() -> None:
    fields = ("model", "tools", "limits")
    assert composed(text="It.\n", extends="base", mixins=["firm"]).tree == Part(
        "it",
        "itself",
        (),
        3,
        (
            Part("base", "extends", fields, 5),
            Part(
                "firm",
                "mixin",
                (),
                5,
                (
                    Part("base", "extends", fields, 0),
                    Part("polite", "mixin", ("model", "tools", "profile"), 10),
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("fields", "cycle"),
    [
        pytest.param({"extends": "it"}, "it -> it", id="itself"),
        pytest.param({"mixins": ["loop-a"]}, "loop-a -> loop-b -> loop-a", id="further down"),
    ],
)
def test_a_circle_is_named(fields: dict[str, object], cycle: str) -> None:
    with pytest.raises(ComponentError, match=f"in a circle: {cycle}") as caught:
        composed(**fields)
    assert caught.value.code == "component_cycle"


def test_a_part_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no component 'gone'"):
        composed(mixins=["odd"])


def test_the_parts_are_bounded() -> None:
    def endless(name: str) -> Component:
        return Component(name=name, extends=f"{name}x")

    with pytest.raises(ComponentError, match=f"more than {MAX_PARTS} parts"):
        compose(Component(name="a", extends="b"), endless)


def test_the_text_is_bounded() -> None:
    def long(name: str) -> Component:
        return Component(name=name, text="x" * (MAX_TEXT // 2 + 1))

    with pytest.raises(ComponentError, match="characters of text in all"):
        compose(Component(name="a", mixins=["b", "c"]), long)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(
            st.none() | st.sampled_from("abcdef"),
            st.lists(st.sampled_from("abcdef"), max_size=3),
            st.lists(st.sampled_from("abcdef"), max_size=3),
        ),
        min_size=6,
    )
)
def test_any_graph_ends_in_a_component_or_a_named_circle(
    graph: dict[str, tuple[str | None, list[str], list[str]]],
) -> None:
    def part(name: str) -> Component:
        extends, mixins, dependencies = graph[name]
        return Component(
            name=name, text=name, extends=extends, mixins=mixins, dependencies=dependencies
        )

    try:
        result = compose(part("a"), part)
    except ComponentError as exc:
        circle = exc.message.rpartition(": ")[2].split(" -> ")
        assert circle[0] == circle[-1]
        for name, following in pairwise(circle):
            extends, mixins, dependencies = graph[name]
            assert following in (extends, *mixins, *dependencies)
    else:
        texts = result.component.text.split()
        assert len(texts) == len(set(texts))
        assert texts[-1] == "a"


@given(st.text(), st.text())
def test_values_are_never_filled_in_again(first: str, second: str) -> None:
    result = composed(text="{{a}} {{b}}", variables={"a": "1", "b": "2"}).component
    given = {"a": f"{{{{b}}}}{first}", "b": f"{{{{a}}}}{second}"}
    assert render(result, given) == f"{given['a']} {given['b']}\n"
