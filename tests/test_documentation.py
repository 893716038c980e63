"""What the documentation lists is what the code has: terms, paths, packages, the runtime's contract, options."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conversation import read
from tests.matrix.cases import FILES, Way
from tests.matrix.table import FORMS, STRATEGIES
from tests.test_golden import DRAWN_WAYS, is_quick
from tidemill.engine.catalog.views.view_options import view_options
from tidemill.runtimes.runtime import Runtime

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tidemill"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
LINE = 160
CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)


def _page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _section(name: str, heading: str) -> str:
    """The text below a heading, up to the next of the same level."""
    return _page(name).split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]


def _words_of_source() -> set[str]:
    """Every name in the source, its modules and packages included."""
    paths = [*SOURCE.rglob("*.py")]
    names = {part.removesuffix(".py") for path in paths for part in path.relative_to(SOURCE).parts}
    return names.union(*(re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in paths))


def test_terms_of_the_glossary_are_in_the_source() -> None:
    terms = set(CODE.findall(_page("docs/glossary.md")))
    assert len(terms) > 40
    assert not terms - _words_of_source()


@pytest.mark.parametrize("system", ["DBToaster", "GraphIVM", "MOVIE", "ECA", "SWEEP", "ViewDF", "DBSP", "SQL standard"])
def test_the_glossary_names_its_sources(system: str) -> None:
    terms, _, references = _page("docs/glossary.md").partition("## References")
    assert system in terms and f"*{system}*" in references


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_are_not_too_long(page: Path) -> None:
    """Rows of tables are one line each: Markdown has no other way to write them."""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    assert not [number for number, line in lines if len(line) >= LINE and not line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path is named in full, or by its end; code blocks may show those of former commits."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    named = {path for path in CODE.findall(text) if re.fullmatch(r"[\w/]+\.py", path)}
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    assert not [path for path in named if not any(file.endswith(f"/{path}") for file in files)]


def test_the_contract_of_a_runtime_is_complete() -> None:
    table = "".join(
        re.findall(r"^\|.*\n", _section("docs/design/architecture.md", "From program to changes"), flags=re.M)
    )
    methods = {name for name, value in vars(Runtime).items() if callable(value) and not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", table)) == methods


def test_the_options_of_views_are_complete() -> None:
    listed = re.search(r"^\| option \|.*?\n\n", _page("docs/reference/sql.md"), flags=re.M | re.S)
    assert listed is not None
    assert set(re.findall(r"^\| `(\w+)`", listed[0], flags=re.M)) == set(view_options())


def test_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads(_page("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["tidemill"])
    told = re.search(r"^Layers, highest first; .*?\n\n", _page("docs/design/architecture.md"), flags=re.M | re.S)
    assert told is not None
    assert CODE.findall(told[0]) == [name for layer in layers for name in re.findall(r"\w+", layer)]


def _told_packages() -> Iterator[str]:
    """The packages of the tree in the architecture page, as paths below ``src/tidemill``."""
    above: list[tuple[int, str]] = []
    for line in _section("docs/design/architecture.md", "The tree").split("```")[1].splitlines():
        if found := re.match(r"( +)(\w+)/ +\S", line):
            indent, name = len(found[1]), found[2]
            above = [*((width, one) for width, one in above if width < indent), (indent, name)]
            yield "/".join(one for _, one in above)


def test_the_tree_of_packages_is_complete() -> None:
    assert sorted(_told_packages()) == [str(path.relative_to(SOURCE)) for path in PACKAGES if path != SOURCE]


ENTRY = re.compile(r"(?:^- |; )((?:``\w+``(?:, | and )?)+):", flags=re.MULTILINE)
"""The modules that an item of a map begins with; a second group of them may come after a semicolon."""


def _mapped(package: Path) -> set[str]:
    """The modules and packages that the docstring of a package lists."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    items = re.sub(r"\n +", " ", text)
    return {name for names in ENTRY.findall(items) for name in re.findall(r"\w+", names)}


def _present(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.name for path in package.iterdir() if (path / "__init__.py").exists()}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE.parent)))
def test_the_map_of_a_package_lists_its_modules(package: Path) -> None:
    assert _mapped(package) == _present(package)


QUOTED = re.compile(r"^(\w+) +(\w+) +(\d+) +(\d+) +(\d+) +(\d+) +\d+ +\d+ +\d+ +\d+", flags=re.MULTILINE)
"""A line of the golden table: strategy, way, how many cases there are in each form, and how many ran."""


RECENT = 20
"""Number of golden files that may be newer than the table, which is copied from a run of all of them."""


def test_the_golden_table_has_the_files_that_there_are() -> None:
    """What `make test` prints at its end; of DataFrames only a run can tell which files share one."""
    table = {
        (strategy, way): tuple(map(int, counts))
        for strategy, way, *counts in QUOTED.findall(_section("CONTRIBUTING.md", "Tests"))
    }
    conversations = [read(path) for path in FILES]
    for strategy in STRATEGIES:
        taken = [
            sum(Way(strategy, "held", form).takes(conversation) for conversation in conversations)
            * is_quick("held", strategy, form)
            for form in FORMS
        ]
        *listed, _ = table.pop((strategy, "held"))
        assert all(0 <= now - then <= RECENT for now, then in zip(taken, listed, strict=True)), strategy
    ran = Counter[str]()
    for (_, way), (*_, run) in table.items():
        ran[way] += run
    assert all(0 <= len(FILES) - ran.pop(way) <= RECENT for way in ("columns", "llvm"))
    assert 0 <= 2 * len(FILES) - sum(ran.pop(way) for way in DRAWN_WAYS) <= 2 * RECENT
    assert set(ran) == {"driver", "frames", "refilled", "tasks", "trees"}
