"""ODL: Figure 1 of MOVIE as it is printed, the way back to text, structs, and all that a module can get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.compiler.frontends.odl.resolve import read_odl
from tidemill.compiler.frontends.odl.write import write_odl
from tidemill.engine.catalog.ddl import ddl
from tidemill.model.errors import SqlError, Unsupported
from tidemill.model.nested_classes import from_struct, nested_struct

HERE = Path(__file__).parent

FIGURE_1 = """\
CREATE TABLE `atomicparts` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, `x` BIGINT, \
`y` BIGINT, `docid` BIGINT, `to` ARRAY<BIGINT> NOT NULL, `from` ARRAY<BIGINT> NOT NULL, `partof` BIGINT, \
PRIMARY KEY (`oid`), FOREIGN KEY (`partof`) REFERENCES `compositeparts` (`oid`) NOT ENFORCED)
CREATE TABLE `connections` (`oid` BIGINT NOT NULL, `type` STRING, `length` BIGINT, `from` BIGINT, `to` BIGINT, \
PRIMARY KEY (`oid`), FOREIGN KEY (`from`) REFERENCES `atomicparts` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`to`) REFERENCES `atomicparts` (`oid`) NOT ENFORCED)
CREATE TABLE `compositeparts` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, \
`parts` ARRAY<BIGINT> NOT NULL, `rootpart` BIGINT, `documentation` BIGINT, `usedinpriv` ARRAY<BIGINT> NOT NULL, \
`usedinshar` ARRAY<BIGINT> NOT NULL, PRIMARY KEY (`oid`), \
FOREIGN KEY (`rootpart`) REFERENCES `atomicparts` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`documentation`) REFERENCES `documents` (`oid`) NOT ENFORCED)
CREATE TABLE `documents` (`oid` BIGINT NOT NULL, `title` STRING, `id` BIGINT, `text` STRING, `part` BIGINT, \
PRIMARY KEY (`oid`), FOREIGN KEY (`part`) REFERENCES `compositeparts` (`oid`) NOT ENFORCED)
CREATE TABLE `manuals` (`oid` BIGINT NOT NULL, `title` STRING, `id` BIGINT, `text` STRING, `mod` BIGINT, \
PRIMARY KEY (`oid`), FOREIGN KEY (`mod`) REFERENCES `modules` (`oid`) NOT ENFORCED)
CREATE TABLE `assemblies` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, `asmtype` STRING, \
`superassembly` BIGINT, `omodule` BIGINT, PRIMARY KEY (`oid`), \
FOREIGN KEY (`superassembly`) REFERENCES `complexassemblies` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`omodule`) REFERENCES `modules` (`oid`) NOT ENFORCED)
CREATE TABLE `complexassemblies` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, \
`asmtype` STRING, `superassembly` BIGINT, `omodule` BIGINT, `subassemblies` ARRAY<BIGINT> NOT NULL, \
PRIMARY KEY (`oid`), FOREIGN KEY (`superassembly`) REFERENCES `complexassemblies` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`omodule`) REFERENCES `modules` (`oid`) NOT ENFORCED)
CREATE TABLE `baseassemblies` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, \
`asmtype` STRING, `superassembly` BIGINT, `omodule` BIGINT, `componentspriv` ARRAY<BIGINT> NOT NULL, \
`componentsshar` ARRAY<BIGINT> NOT NULL, PRIMARY KEY (`oid`), \
FOREIGN KEY (`superassembly`) REFERENCES `complexassemblies` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`omodule`) REFERENCES `modules` (`oid`) NOT ENFORCED)
CREATE TABLE `modules` (`oid` BIGINT NOT NULL, `id` BIGINT, `type` STRING, `builddate` BIGINT, `designroot` BIGINT, \
`man` BIGINT, `assemblies` ARRAY<BIGINT> NOT NULL, PRIMARY KEY (`oid`), \
FOREIGN KEY (`designroot`) REFERENCES `complexassemblies` (`oid`) NOT ENFORCED, \
FOREIGN KEY (`man`) REFERENCES `manuals` (`oid`) NOT ENFORCED)"""


def test_figure_1() -> None:
    schema = read_odl((HERE / "oo7.odl").read_text(), "oo7.odl")
    assert "\n".join(ddl(schema.table(name)) for name in schema.classes if schema.is_stored(name)) == FIGURE_1
    assert {name: found.keys for name, found in schema.classes.items() if found.keys} == {
        "atomicpart": (("id",),),
        "compositepart": (("id",),),
        "document": (("title",), ("id",)),
        "baseassembly": (("id",),),
        "modulet": (("id",),),
    }
    assert schema.attributes("baseassembly")["asmtype"].among == ("Complex", "Base")


@pytest.mark.parametrize("module", ["oo7", "odd", "more"])
def test_text_and_back(module: str) -> None:
    schema = read_odl((HERE / f"{module}.odl").read_text())
    assert read_odl(write_odl(schema)) == schema


def test_structs_and_back() -> None:
    text = """module shop {
      class order (extent Orders key id) { attribute long id; attribute customer by; attribute list<line> lines; };
      class customer (extent Customers) { attribute string name; attribute list<string> phones; };
      class line (extent Lines) { attribute double pieces; attribute item item; };
      class item (extent Items) { attribute string name; };
    }"""
    schema = read_odl(text)
    nested = nested_struct(schema, "order")
    assert str(nested) == (
        "STRUCT<oid: BIGINT, id: BIGINT, by: STRUCT<oid: BIGINT, name: STRING, phones: ARRAY<STRING>>, "
        "lines: ARRAY<STRUCT<oid: BIGINT, pieces: DOUBLE, item: STRUCT<oid: BIGINT, name: STRING>>>>"
    )
    again = from_struct("shop", {"order": nested}, {"order": ["id"]})
    assert read_odl(write_odl(again)) == again
    assert [str(again.struct(name)) for name in ("order", "line")] == [
        str(schema.struct(name)) for name in ("order", "line")
    ]
    with pytest.raises(Unsupported, match="cannot be nested"):
        nested_struct(read_odl((HERE / "oo7.odl").read_text()), "compositepart")


WRONG = {
    "class a extends b {};": """\
there is no class "b"
  m.odl:2:17   b {};
               ^
hint: There is: a.""",
    "class a extends c {}; class b extends a {}; class c extends b {};": """\
class "a" extends itself
  m.odl:2:17   c {}; class b extends a {}; class c extends b {};
               ^
detail: The cycle is a, c, b.""",
    "class a {}; class A {};": """\
class "a" is declared twice
  m.odl:2:19   A {};
               ^""",
    "class a { attribute long x; attribute string X; };": """\
attribute "x" of class "a" is declared twice
  m.odl:2:46   X; };
               ^""",
    "class a { attribute long x; }; class b extends a { attribute long x; };": """\
class "b" has an attribute "x" already
  m.odl:2:67   x; };
               ^
detail: It is inherited from class "a".""",
    "class a (extent As) {}; class b (extent as) {};": """\
"as" is the extent of class "a" already
  m.odl:2:41   as) {};
               ^^
hint: Use another name.""",
    "class a (extent As key y) { attribute long x; };": """\
there is no attribute "y"
  m.odl:2:24   y) { attribute long x; };
               ^
hint: Attributes of class "a": x.""",
    "class a (key x) { attribute long x; };": """\
class "a" has a key and no extent
  m.odl:2:14   x) { attribute long x; };
               ^
hint: A key identifies the objects of an extent: name one, as in (extent Parts key id).""",
    "class a { attribute thing x; };": """\
there is no type or class "thing"
  m.odl:2:21   thing x; };
               ^^^^^
hint: There is: a.""",
    "class a { relationship b x inverse b::y; }; class b { attribute a y; };": """\
the inverse of "a::x" does not point back
  m.odl:2:39   y; }; class b { attribute a y; };
               ^
detail: "b::y" is the inverse of nothing.
hint: Declare it as a relationship with a, inverse a::x.""",
    "class a { relationship b x inverse c::y; }; class b {}; class c { relationship a y inverse a::x; };": """\
relationship "x" has class "b" as its target, but its inverse is elsewhere
  m.odl:2:36   c::y; }; class b {}; class c { relationship a y inverse a::x; };
               ^
hint: Say inverse b::y.""",
    "class a { relationship long x inverse a::x; };": """\
relationship "x" does not refer to a class
  m.odl:2:24   long x inverse a::x; };
               ^^^^
hint: A relationship is between objects; declare values with attribute.""",
    "class a { attribute bag<set<long>> x; };": """\
collections of collections are not supported
  m.odl:2:25   set<long>> x; };
               ^^^
hint: Declare a class that has the inner collection, and use its objects as elements.""",
    "class a { attribute long oid; };": """\
an attribute cannot be called "oid"
  m.odl:2:26   oid; };
               ^^^
detail: Tables of objects have a system column of that name.""",
    "class a { long x; };": """\
attribute, relationship was expected here
  m.odl:2:11   long x; };
               ^^^^""",
    "class a { attribute long x }": """\
";" was expected here
  m.odl:2:28   }
               ^""",
    "enum e {A, A};": """\
the enum names "A" twice
  m.odl:2:12   A};
               ^""",
    "interface i {}; class a extends i {};": """\
"i" is an interface
  m.odl:2:33   i {};
               ^
hint: Say class a : i.""",
    "class i {}; class a : i {};": """\
"i" is a class
  m.odl:2:23   i {};
               ^
hint: Say class a extends i.""",
    "interface i (extent Is) {};": """\
interface "i" has no extent and no key
  m.odl:2:13   (extent Is) {};
               ^
detail: Its objects are those of the classes that have it.
hint: Declare a class, and let others extend it.""",
    "interface i { attribute long x; }; interface j { attribute long x; }; class a : i, j {};": """\
class "a" would have two attributes "x"
  m.odl:2:77   a : i, j {};
               ^
detail: They are inherited from "i" and "j".
hint: Declare the attribute in an interface of its own, which both of them have.""",
    "interface i : j {}; interface j : i {};": """\
class "i" extends itself
  m.odl:2:15   j {}; interface j : i {};
               ^
detail: The cycle is i, j.""",
    "typedef bag<u> t; typedef set<long> u;": """\
collections of collections are not supported
  m.odl:2:9   bag<u> t; typedef set<long> u;
              ^^^
hint: Declare a class that has the inner collection, and use its objects as elements.""",
    "typedef t t;": """\
type "t" is part of itself
  m.odl:2:9   t t;
              ^
hint: Declare a class, and refer to it.""",
    "struct s { long x; bag<long> xs; };": """\
member "xs" of a struct has to be a value
  m.odl:2:20   bag<long> xs; };
               ^^^
detail: References, collections and enums are checked in attributes of objects alone.
hint: Declare a class in place of the struct, and refer to its objects.""",
    "struct s { };": """\
a struct has at least one member
  m.odl:2:8   s { };
              ^""",
    "const long a = 1; const short b = c;": """\
there is no constant "c"
  m.odl:2:35   c;
               ^
hint: There is: a, b.""",
    'const long a = "x";': """\
constant "a" is not a BIGINT
  m.odl:2:12   a = "x";
               ^""",
    "class a {}; enum a {X};": """\
"a" is a class or a type already
  m.odl:2:18   a {X};
               ^""",
    "module n { };": """\
module is not supported in a module
  m.odl:2:1   module n { };
              ^^^^^^
detail: A module holds classes, and no modules.""",
    "class a { attribute n::b x; }; class b {};": """\
there is no type or class "n::b"
  m.odl:2:21   n::b x; }; class b {};
               ^
hint: There is: a, b.""",
    "class a { attribute long x = 3; };": """\
";" was expected here
  m.odl:2:28   = 3; };
               ^""",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong(text: str) -> None:
    with pytest.raises(SqlError) as refused:
        read_odl(f"module m {{ // what comes next is wrong\n{text}\n}};", "m.odl")
    assert str(refused.value) == WRONG[text]
