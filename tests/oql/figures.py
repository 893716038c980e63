"""The figures of MOVIE: views (2, 10 and 15), their operators (3), what is derived from them (6 and 12), plans (7)."""

from __future__ import annotations

from pathlib import Path

from tidemill.compiler.frontends.odl.resolve import read_odl

SCHEMA = read_odl((Path(__file__).parents[1] / "objects" / "oo7.odl").read_text())

FIGURE_2 = """
define dbSizeView() as
select struct(ComPartId:c.id,
              CType:c.type,
              DocId:d.id)
from   c in CompositeParts,
       d in Documents
where  c.documentation = d

define comAtomBuildDates() as
select struct(ComPartId:c.id,
              ComBDate:c.buildDate,
              AtomBDates:
              (select a.buildDate
               from a in c.parts))
from   c in CompositeParts
"""

FIGURE_10 = """
define V1() as
  select struct(CID:c.id, CP:c.parts)
  from c in CompositeParts

define V2() as
  select struct(CID:c.id, CP:a.id)
  from c in CompositeParts, a in c.parts

define V3() as
  select struct(CID:c.id,
                CP:(select a.id
                    from a in c.parts))
  from c in CompositeParts
"""

FIGURE_15 = """
define selView_1() as
select struct(ComPartId:c.id,
              CType:c.type)
from   c in CompositeParts
where  c.id <= 1200

define joinSelView_1() as
select struct(ComPartId:c.id,
              CType:c.type,
              DocId:d.id)
from   c in CompositeParts,
       d in Documents
where  c.documentation = d and
       c.id <= 1200

define complexView1() as
select struct(ComPartId:c.id,
              CType:c.type)
from   c in CompositeParts
where  c.id <= 200

define complexView2() as
select struct(ComPartId:c.id,
              CType:c.type,
              AtomPartId:a.id)
from   c in CompositeParts,
       a in c.parts
where  c.id <= 200 and
       c.buildDate > a.buildDate

define complexView3() as
select struct(ComPartId:c.id,
              CType:c.type,
              AtomPartId:a.id,
              BaseAssmId:b.id)
from   c in CompositeParts,
       a in c.parts,
       b in c.usedInPriv
where  c.id <= 200 and
       c.buildDate > a.buildDate and
       c.buildDate > b.buildDate

define complexView4() as
select struct(ComPartId:c.id,
              CType:c.type,
              AtomPartId:a.id,
              BaseAssmId:b.id,
              DocId:d.id)
from   c in CompositeParts,
       a in c.parts,
       b in c.usedInPriv,
       d in Documents
where  c.id <= 200 and
       c.buildDate > a.buildDate and
       c.buildDate > b.buildDate and
       c.documentation=d
"""

FIGURE_3 = {
    "dbsizeview": """
reduce(bag,
  join(bag,
    get(bag, CompositeParts, c, and()),
    get(bag, Documents, d, and()),
    and(eq(c.documentation, d)),
    none),
  X1,
  struct(ComPartId=c.id, CType=c.type,
    DocId=d.id),
  and())
""",
    "comatombuilddates": """
reduce(bag,
  nest(bag,
    unnest(bag,
      get(bag, CompositeParts, c, and()),
      a,
      project(c, parts),
      and(), true),
    X2,
    project(a, buildDate),
    vars(c), and()),
  X1,
  struct(ComPartId=c.id, ComBDate=c.buildDate,
    AtomBDates=X2),
  and())
""",
}

FIGURE_6_LEFT = """
define OIDs_for_dbSizeView() as
  select distinct struct(CO:c, DO:d, VO:v)
  from c in CompositeParts,
       d in Documents,
       v in dbSizeView
  where c.documentation = d
    and v.ComPartId = c.id
    and v.CType = c.type
    and v.DocId = d.id
"""

FIGURE_6_RIGHT = """
define OID_projecting_dbSizeView() as
  select distinct struct(CO:c, DO:d,
                         ComPartId:c.id,
                         CType:c.type,
                         DocId:d.id)
  from c in CompositeParts,
       d in Documents
  where c.documentation = d
"""

FIGURE_7_LEFT = """
reduce(set,
  join(set,
    get(set,
      Δ(onInsertToExtent, CompositeParts),
      c,
      and()),
    get(set, Documents, d, and()),
    and(eq(c.documentation, d)),
    none),
  X1,
  struct(CO=c, DO=d, ComPartId=c.id,
    CType=c.type, DocId=d.id),
  and())
"""

FIGURE_7_RIGHT = """
reduce(set,
  join(set,
    get(set, OIDs_for_dbSizeView, mat_oids, and()),
    get(set,
      Δ(onModifyAttribute, CompositePart.type),
      δ,
      and()),
    and(eq(mat_oids.CO, δ)),
    none),
  X1,
  struct(mat_obj=mat_oids.VO, CType=δ.type),
  and())
"""

FIGURE_9 = {
    "onInsertToExtent compositeparts",
    "onDeleteFromExtent compositeparts",
    "onInsertToExtent documents",
    "onDeleteFromExtent documents",
    "onModifyAttribute compositepart.documentation",
    "onModifyAttribute document.part",
    "onModifyAttribute compositepart.id",
    "onModifyAttribute compositepart.type",
    "onModifyAttribute document.id",
}
"""Its arrows: two scans, and the four attributes, of which one is a relationship and has an inverse."""

FIGURE_12_LEFT = """
reduce(set,
  nest(set,
    unnest(set,
      get(set, CompositeParts, c, and()),
      a,
      project(c, parts),
      and(), true),
    X2,
    struct(elO=a, el=a.buildDate),
    vars(c), and()),
  X1,
  struct(ComPartId=c.id,
    ComBDate=c.buildDate,
    AtomBDates=X2),
  and())
"""

FIGURE_12_RIGHT = """
reduce(set,
  nest(set,
    unnest(set,
      get(set, Δ(onInsertElementToCollection, compositePart.parts),
        c, and()),
      a,
      project(c, parts),
      and(), true),
    X2,
    struct(elO=a, el=a.buildDate),
    vars(c), and()),
  X1,
  struct(ComPartId=c.id, ComBDate=c.buildDate,
    AtomBDates=X2),
  and())
"""
"""The figure abbreviates the name of the event."""
