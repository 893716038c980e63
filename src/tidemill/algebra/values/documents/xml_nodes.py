"""XML texts as trees of nodes, for XPath. Texts with a document type, namespaces or CDATA are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from xml.parsers import expat

from tidemill.model.errors import ArithmeticFault

AFTER_THE_END = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]
"""The error of a text that goes on after its element."""

_REFUSED = re.compile(r"<!DOCTYPE|<!ENTITY|<!\[CDATA\[|\bxmlns\b")


@dataclass(eq=False, slots=True)
class XmlNode:
    """A node: ``kind`` is ``document``, ``element``, ``attribute``, ``text``, ``comment`` or ``instruction``.

    ``place`` is its position in the order of the document.
    """

    kind: str
    name: str
    value: str
    place: int
    parent: XmlNode | None = None
    children: list[XmlNode] = field(default_factory=list)
    attributes: list[XmlNode] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The string value: of an element all texts within it."""
        if self.kind not in ("document", "element"):
            return self.value
        return "".join(child.text for child in self.children if child.kind in ("text", "element"))


@lru_cache(maxsize=64)
def read_xml(text: str, lenient: bool = False) -> XmlNode | None:
    """The document of a text; an error where it is no XML, or None where ``lenient``: then it ends with its element.

    The last ones are kept, for several paths into one text.
    """
    if found := _REFUSED.search(text):
        raise ArithmeticFault(f"XML with {found.group()} is not read", hint="Take it out first.")
    builder = _Builder()
    try:
        builder.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        if lenient:
            return builder.document if error.code == AFTER_THE_END else None
        raise ArithmeticFault(f"{text[:100]!r} is no XML", detail=f"{error}.") from None
    return builder.document


class _Builder:
    """Builds a tree from the events of a parser."""

    def __init__(self) -> None:
        self.document = self._current = XmlNode("document", "", "", 0)
        self._count = 0
        self.parser = expat.ParserCreate("UTF-8")
        self.parser.buffer_text = True
        self.parser.ordered_attributes = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = lambda text: self._add("text", "", text)
        self.parser.CommentHandler = lambda text: self._add("comment", "", text)
        self.parser.ProcessingInstructionHandler = lambda name, text: self._add("instruction", name, text)

    def _node(self, kind: str, name: str, value: str) -> XmlNode:
        self._count += 1
        return XmlNode(kind, name, value, self._count, self._current)

    def _add(self, kind: str, name: str, value: str) -> XmlNode:
        node = self._node(kind, name, value)
        self._current.children.append(node)
        return node

    def _start(self, name: str, attributes: list[str]) -> None:
        self._current = self._add("element", name, "")
        for key, value in zip(attributes[::2], attributes[1::2], strict=True):
            self._current.attributes.append(self._node("attribute", key, value))

    def _end(self, name: str) -> None:
        assert self._current.parent is not None
        self._current = self._current.parent
