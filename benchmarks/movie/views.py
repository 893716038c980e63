"""The views of Figures 2 and 15, in OQL as the paper has them and in SQL as DuckDB is asked."""

from __future__ import annotations

from dataclasses import dataclass

STEP = 1_200
"""By so much the ids grow that each view of a series lets through: of the 6,000 of db3, a fifth."""

SELECTIVITIES = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class View:
    """A view: its name in the paper, in lower case; its OQL; and its SQL over the tables of the extents."""

    name: str
    oql: str
    sql: str


def sel_view(number: int) -> View:
    """``selView_i``: a Reduce-Get view."""
    most = number * STEP
    return View(
        f"selview_{number}",
        f"select struct(ComPartId: c.id, CType: c.type) from c in CompositeParts where c.id <= {most}",
        f"SELECT c.id AS compartid, c.type AS ctype FROM compositeparts c WHERE c.id <= {most}",
    )


def join_sel_view(number: int) -> View:
    """``joinSelView_i``: the same, joined with documents."""
    most = number * STEP
    return View(
        f"joinselview_{number}",
        "select struct(ComPartId: c.id, CType: c.type, DocId: d.id) from c in CompositeParts, d in Documents"
        f" where c.documentation = d and c.id <= {most}",
        "SELECT c.id AS compartid, c.type AS ctype, d.id AS docid FROM compositeparts c, documents d"
        f" WHERE c.documentation = d.oid AND c.id <= {most}",
    )


_PARTS = "SELECT *, UNNEST(parts) AS part FROM compositeparts WHERE id <= 200"
_BOTH = (
    f"(SELECT *, UNNEST(usedinpriv) AS used FROM ({_PARTS})) c JOIN atomicparts a ON a.oid = c.part"
    " JOIN baseassemblies b ON b.oid = c.used"
)
_OLDER = "WHERE c.builddate > a.builddate AND c.builddate > b.builddate"
"""Elements come before joins: the other way round, DuckDB pairs all parts with all assemblies first."""

COMPLEX = (
    View(
        "complexview1",
        "select struct(ComPartId: c.id, CType: c.type) from c in CompositeParts where c.id <= 200",
        "SELECT c.id AS compartid, c.type AS ctype FROM compositeparts c WHERE c.id <= 200",
    ),
    View(
        "complexview2",
        "select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id) from c in CompositeParts, a in c.parts"
        " where c.id <= 200 and c.buildDate > a.buildDate",
        "SELECT c.id AS compartid, c.type AS ctype, a.id AS atompartid"
        f" FROM ({_PARTS}) c JOIN atomicparts a ON a.oid = c.part"
        " WHERE c.builddate > a.builddate",
    ),
    View(
        "complexview3",
        "select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id, BaseAssmId: b.id)"
        " from c in CompositeParts, a in c.parts, b in c.usedInPriv"
        " where c.id <= 200 and c.buildDate > a.buildDate and c.buildDate > b.buildDate",
        f"SELECT c.id AS compartid, c.type AS ctype, a.id AS atompartid, b.id AS baseassmid FROM {_BOTH} {_OLDER}",
    ),
    View(
        "complexview4",
        "select struct(ComPartId: c.id, CType: c.type, AtomPartId: a.id, BaseAssmId: b.id, DocId: d.id)"
        " from c in CompositeParts, a in c.parts, b in c.usedInPriv, d in Documents"
        " where c.id <= 200 and c.buildDate > a.buildDate and c.buildDate > b.buildDate and c.documentation = d",
        "SELECT c.id AS compartid, c.type AS ctype, a.id AS atompartid, b.id AS baseassmid, d.id AS docid"
        f" FROM {_BOTH} JOIN documents d ON d.oid = c.documentation {_OLDER}",
    ),
)
"""``complexView1`` to ``complexView4``: each adds an unnest or a join to the one before."""

DB_SIZE = View(
    "dbsizeview",
    "select struct(ComPartId: c.id, CType: c.type, DocId: d.id) from c in CompositeParts, d in Documents"
    " where c.documentation = d",
    "SELECT c.id AS compartid, c.type AS ctype, d.id AS docid FROM compositeparts c, documents d"
    " WHERE c.documentation = d.oid",
)
"""``dbSizeView``, which grows with the database."""

VIEWS = {
    view.name: view
    for view in (
        *(sel_view(number) for number in range(1, 6)),
        *(join_sel_view(number) for number in range(1, 6)),
        *COMPLEX,
        DB_SIZE,
    )
}
"""By name."""
