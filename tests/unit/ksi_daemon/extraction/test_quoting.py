"""What is shown and what is said."""

from __future__ import annotations

import pytest

from ksi_daemon.extraction.quoting import Quoting, Shown
from tests.growth import LINEAR, doubling, repeated


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("do @", None, id="prose"),
        pytest.param("> @", "quoted", id="block quote"),
        pytest.param("a\n  > b @", "quoted", id="indented block quote"),
        pytest.param("> a\n@", None, id="line after a block quote"),
        pytest.param("-> @", None, id="arrow"),
        pytest.param("- > @", "quoted", id="block quote in a list"),
        pytest.param("1. * > a @", "quoted", id="block quote in a list in a list"),
        pytest.param("- a > @", None, id="greater than in a list"),
        pytest.param("a > b @", None, id="greater than"),
        pytest.param("```json\n@", None, id="json fence"),
        pytest.param("```JSON\n@", None, id="label in capitals"),
        pytest.param("```\n@", None, id="fence without a label"),
        pytest.param("```event\n@", None, id="event fence"),
        pytest.param("```python\n@", "fenced", id="python fence"),
        pytest.param("``` python title=x\n@", "fenced", id="label after a space"),
        pytest.param("```python\r\n@", "fenced", id="CRLF"),
        pytest.param("  ```python\n@", "fenced", id="indented fence"),
        pytest.param("~~~yaml\n@", "fenced", id="tilde fence"),
        pytest.param("```python\nx\n```\n@", None, id="closed fence"),
        pytest.param("```python\nx\n````\n@", None, id="longer closer"),
        pytest.param("````python\nx\n```\n@", "fenced", id="shorter run is content"),
        pytest.param("```python\nx\n~~~\n@", "fenced", id="other run is content"),
        pytest.param("```markdown\n```json\n@", "fenced", id="json fence within another"),
        pytest.param("```markdown\n```json\n```\n@", "fenced", id="after the inner fence"),
        pytest.param("```markdown\n```json\n```\n```\n@", None, id="after both fences"),
        pytest.param("use ```python\n@", None, id="fence in mid-line"),
        pytest.param("use ``` ```python\n@", None, id="fence behind another in mid-line"),
        pytest.param("```python @", None, id="fence line that is not over"),
        pytest.param("```a`b\n@", None, id="backtick in the label"),
        pytest.param("x ``` y\n```python\n@", "fenced", id="run in mid-line before a fence"),
        pytest.param("<think>@", "thought", id="thought"),
        pytest.param("<thinking>\na\n@", "thought", id="thinking"),
        pytest.param("<think>a</think>@", None, id="after the thought"),
        pytest.param("<think>```python\n</think>\n@", None, id="fence in a thought"),
        pytest.param("```python\n<think>\n```\n@", None, id="thought in a fence"),
        pytest.param("the <think> tag @", None, id="tag in mid-line"),
        pytest.param("<thought>a\n@", "thought", id="thought by its name"),
        pytest.param("<reasoning>a @", "thought", id="reasoning"),
        pytest.param("<analysis>a @", "thought", id="analysis"),
        pytest.param("<reflection>a @", "thought", id="reflection"),
        pytest.param("<scratchpad>a @", "thought", id="scratchpad"),
        pytest.param("<reasoning>a</reasoning> @", None, id="behind the reasoning"),
        pytest.param("the <analysis> tag @", None, id="analysis in mid-line"),
        pytest.param("<thinker>\n@", None, id="another tag"),
        pytest.param("[THINK]a\n@", "thought", id="thought of Mistral's"),
        pytest.param("[THINK]a</think>\n@", "thought", id="thought with another's closer"),
        pytest.param("[THINK]a[/THINK]@", None, id="after the thought of Mistral's"),
        pytest.param("<seed:think>a\n@", "thought", id="thought of Seed's"),
        pytest.param("<seed:think>a</seed:think>@", None, id="after the thought of Seed's"),
        pytest.param("`@", "inline code", id="inline code"),
        pytest.param("as in ``@", "inline code", id="two backticks"),
        pytest.param("as in `` @", "inline code", id="two backticks and a space"),
        pytest.param("as in ` @", None, id="one backtick and a space"),
        pytest.param("`x` `@", "inline code", id="second inline code"),
        pytest.param("use `call @", "inline code", id="words before the block in inline code"),
        pytest.param("use ``call @", "inline code", id="words behind two backticks"),
        pytest.param("it`s @", None, id="backtick within a word"),
        pytest.param("the `old' style @", None, id="backtick that opens a quote"),
        pytest.param("the `it's @", "inline code", id="apostrophe in inline code"),
        pytest.param("the `call` was @", None, id="words behind inline code"),
        pytest.param("<code>@", "inline code", id="code tag"),
        pytest.param("use <code>a @", "inline code", id="code tag in mid-line"),
        pytest.param("the <code> tag\n@", None, id="line after a code tag in mid-line"),
        pytest.param('<pre class="json">\n@', "inline code", id="lines behind a pre tag"),
        pytest.param("<pre><code>\n</code></pre>\n@", None, id="behind both code tags"),
        pytest.param("<code>a</code> @", None, id="behind the code"),
        pytest.param("the `<code>` tag: @", None, id="code tag in inline code"),
        pytest.param("<coder>@", None, id="tag that begins like code"),
        pytest.param("`x` @", None, id="after inline code"),
        pytest.param("`x`@", None, id="right behind inline code"),
        pytest.param("the ` key: @", None, id="lone backtick"),
        pytest.param("a ```@", None, id="three backticks in mid-line"),
        pytest.param("the ` key\n@", None, id="line after a lone backtick"),
        pytest.param("```a\n" * 20 + "```\n" * 16 + "@", None, id="more fences than are counted"),
    ],
)
def test_tells_how_a_place_is_shown(text: str, shown: Shown | None) -> None:
    assert Quoting(text).at(text.index("@")) == shown


def test_asks_place_after_place() -> None:
    text = "1 ```\n> 2\n```py\n3 4\n```\n<think>\n5\n</think> 6"
    quoting = Quoting(text)
    assert [quoting.at(text.index(mark)) for mark in "123456"] == [
        None,
        "quoted",
        "fenced",
        "fenced",
        "thought",
        None,
    ]


def test_asks_the_same_place_twice() -> None:
    quoting = Quoting("> a")
    assert [quoting.at(2), quoting.at(2)] == ["quoted", "quoted"]


def test_what_is_passed_over_has_no_layout() -> None:
    text = "[\n```python\n]\n@"
    quoting = Quoting(text)
    quoting.at(0)
    quoting.pass_over(text.index("]"))
    assert quoting.at(text.index("@")) is None


def test_a_fence_may_close_right_behind_a_block() -> None:
    text = "```python\n[]```\n@"
    quoting = Quoting(text)
    assert quoting.at(text.index("[")) == "fenced"
    quoting.pass_over(text.index("]") + 1)
    assert quoting.at(text.index("@")) is None


def test_inline_code_goes_on_behind_a_block_to_its_end() -> None:
    text = "`1 2` 3 `4\n5"
    quoting = Quoting(text)
    shown = []
    for mark in "12345":
        shown.append(quoting.at(text.index(mark)))
        quoting.pass_over(text.index(mark) + 1)
    assert shown == ["inline code", "inline code", None, "inline code", None]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param("a</think>\nb", 9, id="at the end of a line"),
        pytest.param("a</think> \r\nb", 9, id="before a blank and CR LF"),
        pytest.param("a</think>{b", 9, id="before an object"),
        pytest.param("a</thinking>", 12, id="at the end"),
        pytest.param("a</think>\n</think>\n", 9, id="the first of two"),
        pytest.param("a</think> b", 0, id="in a sentence"),
        pytest.param("a</thinker>\n", 0, id="another tag"),
        pytest.param("`</think>`\n", 0, id="in code"),
        pytest.param("```\n</think>\n```\n", 0, id="in a fence"),
        pytest.param("<think>\n</think>\n</think>\n", 0, id="behind an opened thought"),
        pytest.param("no tag", 0, id="none"),
    ],
)
def test_finds_the_end_of_a_thought_that_nothing_opened(text: str, end: int) -> None:
    assert Quoting(text).thought_end() == end


def test_what_lies_before_the_end_of_a_thought_is_one() -> None:
    text = "```py\n1</think>\n2"
    quoting = Quoting(text, thought_until=text.index("\n2"))
    assert quoting.at(text.index("1")) == "thought"
    quoting.pass_over(text.index("1") + 1)
    assert quoting.at(text.index("2")) is None


@pytest.mark.parametrize("unit", ["`a` ", "``a`` ", "`", "```\n", "~~~\n", "> `a`\n"])
def test_layout_costs_no_more_than_the_length(unit: str) -> None:
    def cost(size: int) -> None:
        text = repeated(unit, size)
        Quoting(text).at(len(text))

    assert doubling(cost, 400_000) < LINEAR
