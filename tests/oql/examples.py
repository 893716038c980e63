"""A schema with every kind of attribute, and a query for every construct of OQL."""

from __future__ import annotations

from tidemill.compiler.frontends.odl.resolve import read_odl

SCHEMA = read_odl("""
module library {
  class thing (extent Things) {
    attribute long id;
    attribute string kind; };
  class whole extends thing (extent Wholes) {
    attribute bag<part> parts;
    attribute set<part> chosen;
    attribute part main;
    attribute list<long> sizes;
    attribute set<string> tags;
    relationship paper paper inverse paper::of; };
  class part extends thing (extent Parts) {
    attribute long size;
    attribute bag<part> links;
    attribute paper paper; };
  class paper (extent Papers) {
    attribute string title;
    attribute long pages;
    relationship whole of inverse whole::paper; };
};
""")

QUERIES = {
    "value": "select w.id from w in Wholes",
    "object": "select w from w in Wholes where w.kind = 'a'",
    "everything": "select * from w in Wholes, p in w.parts where p.size > 0",
    "members": "select w.id, kind, w.id + 1 as next from w in Wholes, kind in w.tags",
    "filter": "select struct(a: w.id, b: w.kind) from Wholes as w where w.id >= 1 and not (w.kind = 'b' or w.id = 3)",
    "distinct": "select distinct struct(k: w.kind) from Wholes w",
    "join": "select struct(w: w.id, t: p.title) from w in Wholes, p in Papers where w.paper = p",
    "self_join": "select struct(a: v.id, b: w.id) from v in Wholes, w in Wholes where v.kind = w.kind and v != w",
    "unnest": "select struct(w: w.id, p: p.id) from w in Wholes, p in w.parts where p.size > w.id",
    "unnest_twice": "select struct(w: w.id, l: l.size) from w in Wholes, p in w.parts, l in p.links",
    "unnest_side_by_side": "select struct(w: w.id, p: p.id, c: c.id) from w in Wholes, p in w.parts, c in w.chosen",
    "unnest_join": """select struct(w: w.id, p: p.id, t: q.title) from w in Wholes, p in w.parts, q in Papers
                      where p.paper = q and q.pages > 0""",
    "elements_only": "select struct(w: w.id, p: p) from w in Wholes, p in w.parts",
    "values": "select struct(w: w.id, s: s) from w in Wholes, s in w.sizes where s > 0",
    "path": "select struct(w: w.id, t: w.paper.title, k: w.main.paper.of.kind) from w in Wholes",
    "path_condition": "select w.id from w in Wholes where w.paper.pages > 1 or w.main.size = 2",
    "path_in_join": "select struct(w: w.id, p: p.id) from w in Wholes, p in Parts where w.paper.pages = p.paper.pages",
    "path_of_element": "select struct(w: w.id, t: p.paper.title) from w in Wholes, p in w.parts",
    "nil": "select w.id from w in Wholes where w.paper = nil or w.main.paper != nil",
    "undefined": "select struct(a: is_defined(w.kind), b: is_undefined(w.main)) from w in Wholes",
    "projected": "select struct(w: w.id, ps: w.parts, ss: w.sizes, ts: w.tags) from w in Wholes",
    "nested": "select struct(w: w.id, ss: (select p.size from p in w.parts)) from w in Wholes",
    "nested_set": "select struct(w: w.id, ss: (select distinct p.size from p in w.parts)) from w in Wholes",
    "nested_struct": """select struct(w: w.id, ps: (select struct(i: p.id, t: p.paper.title) from p in w.parts
                        where p.size >= w.id)) from w in Wholes where w.kind = 'a' or w.kind = 'b'""",
    "nested_twice": """select struct(w: w.id, ps: (select struct(i: p.id, ls: (select l.size from l in p.links
                       where l.size > 0)) from p in w.parts)) from w in Wholes""",
    "nested_side_by_side": """select struct(w: w.id, a: (select p.id from p in w.parts),
                              b: (select c.id from c in w.chosen), n: count(select s from s in w.sizes where s > 1))
                              from w in Wholes""",
    "nested_twice_side_by_side": """select struct(w: w.id, n: sum(w.sizes), ps: (select struct(i: p.id,
                                    ls: (select l.size from l in p.links)) from p in w.parts)) from w in Wholes""",
    "nested_join": """select struct(w: w.id, ts: (select q.title from q in Papers where q.of = w)) from w in Wholes""",
    "nested_join_of_unnest": """select struct(w: w.id, ts: (select struct(t: q.title, s: p.size)
                                from p in w.parts, q in Papers where q.pages = p.size)) from w in Wholes""",
    "nested_ordered": """select struct(w: w.id, up: (select p.id from p in w.parts order by p.size, p.id),
                         down: (select s from s in w.sizes order by s desc)) from w in Wholes""",
    "nested_distinct_ordered": """select struct(w: w.id, ss: (select distinct p.size from p in w.parts
                                  order by p.size desc)) from w in Wholes""",
    "nested_above_unnest": """select struct(w: w.id, p: p.id, ls: (select l.id from l in p.links)) from w in Wholes,
                              p in w.parts""",
    "aggregates": """select struct(w: w.id, n: count(w.parts), s: sum(select p.size from p in w.parts),
                     lo: min(select p.size from p in w.parts), hi: max(w.sizes), m: avg(w.sizes)) from w in Wholes""",
    "aggregate_condition": "select w.id from w in Wholes where count(select p from p in w.parts where p.size > 1) >= 1",
    "total": "count(select w from w in Wholes where w.id > 1)",
    "totals": "struct(n: count(Wholes), s: sum(select p.size from p in Parts), m: max(select p.size from p in Parts))",
    "closed": "select w.id from w in Wholes where w.id = max(select p.size from p in Parts)",
    "closed_collection": "select struct(w: w.id, all: (select distinct p.kind from p in Parts)) from w in Wholes",
    "exists": "select w.id from w in Wholes where exists p in w.parts: p.size > 1",
    "exists_distinct": "select distinct w.id from w in Wholes where exists(p in w.parts: p.size > 1) and w.id > 0",
    "exists_query": "select w.id from w in Wholes where exists(select q from q in Papers where q.of = w)",
    "exists_collection": "select w.id from w in Wholes where exists(w.parts) and not exists(w.chosen)",
    "exists_value": "select struct(w: w.id, e: exists p in w.parts: p.kind = w.kind) from w in Wholes",
    "for_all": "select w.id from w in Wholes where for all p in w.parts: p.size > 1",
    "for_all_of_extent": "select w.id from w in Wholes where for all q in Papers: q.pages > w.id",
    "for_all_exists": "select w.id from w in Wholes where for all p in w.parts: exists l in p.links: l.size > p.size",
    "in_attribute": "select struct(w: w.id, p: p.id) from w in Wholes, p in Parts where p in w.parts",
    "in_query": "select p.id from p in Parts where p.size in (select w.id from w in Wholes where w.kind = 'a')",
    "in_values": "select p.id from p in Parts where p.kind in set('a', 'b') and not (p.size in bag(1, 2))",
    "not_in": "select p.id from p in Parts where p not in (select w.main from w in Wholes)",
    "union": "(select w.id from w in Wholes) union (select p.size from p in Parts)",
    "union_of_sets": "(select distinct w.kind from w in Wholes) union (select distinct p.kind from p in Parts)",
    "intersect": "(select w.id from w in Wholes) intersect (select p.size from p in Parts)",
    "intersect_of_sets": "(select distinct w.id from w in Wholes) intersect (select distinct p.id from p in Parts)",
    "except": "(select w.id from w in Wholes) except (select p.size from p in Parts)",
    "except_of_structs": """(select distinct struct(i: w.id, k: w.kind) from w in Wholes) except
                            (select distinct struct(i: p.id, k: p.kind) from p in Parts)""",
    "nested_union": """select struct(w: w.id, b: (select p.id from p in w.parts) union
                       (select c.size from c in w.chosen),
                       s: w.chosen intersect (select distinct p from p in w.parts), t: w.tags except set('a'),
                       u: w.chosen union w.chosen) from w in Wholes""",
    "from_nested_union": """select struct(w: w.id, i: x.id) from w in Wholes,
                            x in (w.parts union (select p from p in w.chosen where p.size > 0))""",
    "from_union": "select x + 1 from x in ((select w.id from w in Wholes) union (select p.size from p in Parts))",
    "from_select": """select struct(a: x.i, b: p.id) from x in (select struct(i: w.id, w: w) from w in Wholes),
                      p in x.w.parts""",
    "from_select_twice": """select struct(a: x.n, b: (select y from y in x.n where y in x.n and exists z in x.n: z > y),
                            c: count(select y from y in x.n, z in x.n where y < z)) from x in
                            (select struct(n: (select p.size from p in w.parts)) from w in Wholes)""",
    "from_distinct": """select struct(k: k, n: count(select w from w in Wholes where w.kind = k))
                        from k in (select distinct p.kind from p in Parts)""",
    "from_nested_distinct": """select struct(w: w.id, k: k) from w in Wholes,
                               k in (select distinct p.kind from p in w.parts)""",
    "from_values": "select struct(n: n, w: w.id) from n in bag(1, 2, 2), w in Wholes where w.id > n",
    "element": """select struct(w: w.id, k: element(select p.kind from p in set(w.main))) from w in Wholes
                  where w.main.kind != nil""",
    "flatten": "flatten(select w.sizes from w in Wholes)",
    "flatten_nested": "select struct(w: w.id, ls: flatten(select p.links from p in w.parts)) from w in Wholes",
    "listtoset": "select struct(w: w.id, s: listtoset(w.sizes), f: first(w.sizes), l: last(w.sizes)) from w in Wholes",
    "constructors": """select struct(b: bag(w.id, 2, 1), s: set(w.id, 1, 1), l: list(w.id, 1)) from w in Wholes
                       where w.id >= 0""",
    "arithmetic": """select struct(a: w.id * 2 - 1, b: -w.id, c: w.id mod 2, d: w.kind || '!', u: upper(w.kind))
                     from w in Wholes""",
    "like": "select w.id from w in Wholes where w.kind like 'a%'",
    "group": "select kind, n: count(partition) from w in Wholes group by kind: w.kind",
    "group_aggregates": """select struct(k: k, n: count(*), s: sum(p.size), m: avg(select x.p.size from x in partition
                           where x.p.size > 0)) from w in Wholes, p in w.parts where p.size >= 0 group by k: w.kind
                           having count(partition) > 1""",
    "group_members": """select struct(k: k, ws: (select x.w.id from x in partition)) from w in Wholes
                        group by k: w.kind, big: w.id > 1""",
    "group_partition": "select struct(k: k, ps: partition) from p in Parts group by k: p.kind",
    "group_of_nested": """select struct(k: k, n: count(*)) from w in Wholes where exists p in w.parts: p.size > 0
                          group by k: w.kind""",
    "from_group": "select g.k from g in (select k, n: count(*) from w in Wholes group by k: w.kind) where g.n > 1",
    "order": "select struct(a: w.id, b: w.kind) from w in Wholes order by w.kind desc, w.id",
    "cast_down": "select struct(t: t.id, s: ((part) t).size, p: ((whole) t).paper.title) from t in Things",
    "cast_is": "select t.id from t in Things where (part) t != nil and t.kind != nil",
    "cast_up": "select struct(a: w.id, b: p.id) from w in Wholes, p in Parts where ((thing) w).kind = ((thing) p).kind",
    "cast_in_join": "select struct(a: t.id, b: w.main.size) from t in Things, w in Wholes where (whole) t = w",
    "cast_of_element": """select struct(w: w.id, k: ((thing) p).kind) from w in Wholes, p in w.parts
                          where (thing) p != nil""",
    "cast_nested": """select struct(w: w.id, ks: (select struct(k: ((thing) p).kind, i: p.id) from p in w.parts
                      where ((thing) p).id >= 0)) from w in Wholes""",
    "cast_grouped": "select k, n: count(*) from t in Things group by k: ((part) t).size",
    "cast_of_number": "select struct(w: w.id, t: ((part) (w.id + 100)).size) from w in Wholes",
    "cast_of_query": "struct(s: ((part) max(select t.id from t in Things)).size, n: (paper) nil)",
    "cast_values": """select struct(s: (string) w.id || 'x', d: (double) w.id / 2, b: (boolean) w.id,
                      c: (decimal<6, 2>) w.id, n: (short) '7', m: (unsigned long) (-w.id)) from w in Wholes""",
    "cast_or_parentheses": "select struct(a: (w.id) + 1, b: (w.id) - 1, c: (id)) from w in Wholes, id in (w.sizes)",
    "moments": """select struct(d: date '2024-02-29', t: timestamp "2024-01-01 10:00:00") from w in Wholes
                  where date '2024-01-01' < (date) '2024-02-01' and year(date '2024-02-29') - 2024 < w.id""",
    "compared_all": """select struct(w: w.id, a: w.id >= all (select p.size from p in w.parts), b: w.id != all w.sizes)
                       from w in Wholes where w.id < all (select p.size + 2 from p in Parts)""",
    "compared_any": """select struct(w: w.id, a: w.id > any (select p.size from p in w.parts), b: w.id = any(w.sizes),
                       c: w.id <> some w.sizes) from w in Wholes where w.kind = some (select p.kind from p in Parts)""",
    "compared_objects": "select p.id from p in Parts where p != all (select w.main from w in Wholes)",
    "unique": """select struct(w: w.id, a: unique(w.parts), b: unique(select q from q in Papers where q.of = w))
                 from w in Wholes""",
    "exists_unique": "select w.id from w in Wholes where exists unique p in w.parts: p.size > 1",
    "select_unique": "select unique w.kind from w in Wholes",
    "called_unique": "select unique from unique in (select w.kind from w in Wholes)",
    "inclusion": """select struct(w: w.id, a: w.tags <= set('a', 'b'), b: w.tags < set('a', 'b'), c: w.tags >= set('a'),
                    d: w.chosen > (select distinct p from p in w.parts)) from w in Wholes""",
    "constant": "1 + 1",
    "extent": "Papers",
}  # fmt: skip
