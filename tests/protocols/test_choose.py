"""The cheapest protocol that keeps a level, and what is refused."""

from __future__ import annotations

import pytest

from tests.protocols.harness import BAG, KEYED, KEYS
from tidemill.model.errors import Unsupported
from tidemill.protocols.choose_protocol import CHEAPEST, PROTOCOLS, choose_protocol, explain_choice
from tidemill.sources.remote_queries.signed_query import SpjView

ONE = dict.fromkeys(KEYS, "shop")
TWO = {"r1": "shop", "r2": "shop", "r3": "bank"}


@pytest.mark.parametrize(
    ("level", "of", "homes", "name"),
    [
        ("strong", KEYED, ONE, "eca_key"),
        ("strong", BAG, ONE, "eca_local"),
        ("convergent", BAG, ONE, "eca_local"),
        ("weak", KEYED, ONE, "eca_key"),
        ("consistent", KEYED, ONE, "eca_key"),
        ("complete", KEYED, ONE, "lca"),
        ("complete", BAG, TWO, "sweep"),
        ("convergent", KEYED, TWO, "sweep"),
    ],
)
def test_the_cheapest_that_keeps_the_level(level: str, of: SpjView, homes: dict[str, str], name: str) -> None:
    assert choose_protocol(level, of, KEYS, homes) == name


def test_the_reason_is_what_the_cheaper_ones_lack() -> None:
    assert explain_choice("eca_key", None, KEYED, KEYS, ONE) == 'the cheapest that is "strong"'
    assert explain_choice("lca", "complete", BAG, KEYS, ONE) == (
        'the cheapest that is "complete"'
        "; eca_key needs the primary key of every relation, under every alias, among the view's columns"
        '; eca_local is no more than "strong"'
    )
    assert explain_choice("sweep", "weak", KEYED, KEYS, TWO).count("needs all relations of the view in one source") == 3


def test_without_keys_nothing_rests_on_them() -> None:
    assert choose_protocol("strong", KEYED, {}, ONE) == "eca_local"
    assert choose_protocol("strong", KEYED, {"r1": ("a",), "r3": ("c",)}, ONE) == "eca_local"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_can_be_asked_for(name: str) -> None:
    assert choose_protocol(None, KEYED, KEYS, ONE, name) == name


def test_what_is_dear_is_never_chosen() -> None:
    assert not {"copies", "recompute"} & set(CHEAPEST)


def refused(*arguments: object) -> str:
    with pytest.raises(Unsupported) as error:
        choose_protocol(*arguments)  # type: ignore[arg-type]
    return error.value.render()


def test_keys_that_are_not_shown() -> None:
    assert refused("strong", BAG, KEYS, ONE, "eca_key") == (
        'error: protocol "eca_key" cannot keep this view\n'
        "  no key of r1, r2\n"
        "detail: It needs the primary key of every relation, under every alias, among the view's columns.\n"
        'hint: Use protocol "eca_local".'
    )


@pytest.mark.parametrize("name", ["recompute", "eca", "eca_key", "eca_local", "lca"])
def test_several_sources(name: str) -> None:
    told = refused("weak", KEYED, KEYS, TWO, name)
    assert "r1 in shop, r2 in shop, r3 in bank" in told
    assert 'hint: Use protocol "sweep".' in told


def test_a_level_that_a_protocol_does_not_keep() -> None:
    assert refused("complete", KEYED, KEYS, ONE, "eca") == (
        'error: protocol "eca" does not keep consistency "complete"\n'
        'detail: It promises "strong".\n'
        'hint: Use protocol "lca".'
    )


def test_words_that_mean_nothing() -> None:
    assert "Use one of convergent, weak, consistent, strong, complete." in refused("eventual", KEYED, KEYS, ONE)
    assert "Protocols are recompute, copies" in refused("strong", KEYED, KEYS, ONE, "strobe")
