// Plain functions of the console: run by `node --test`, which takes TypeScript as it is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExactly } from "../src/base/exact_json.ts";
import { bytes, cell, count, moment, percent, seconds, short } from "../src/base/format.ts";
import { place } from "../src/graph/layout.ts";
import { matching } from "../src/parts/matching.ts";
import type { Relation, Status } from "../src/server/answers.ts";
import { roleFor } from "../src/query/statement_rights.ts";
import { me, refusal, type Role } from "../src/server/me.ts";
import { nodesOf } from "../src/server/nodes.ts";

test("numbers and times are short", () => {
  assert.deepEqual([0, 7, 999, 1234, 56789, 2_500_000].map(short), ["0", "7", "999", "1.2k", "57k", "2.5M"]);
  assert.deepEqual([0, 0.00002, 0.0123, 4.25, 600, 90_000].map(seconds), ["0 s", "20 µs", "12 ms", "4.3 s", "10 min", "25 h"]);
  assert.deepEqual([999, 1500, 20_000_000].map(bytes), ["999 B", "1.5 kB", "20 MB"]);
  assert.deepEqual([null, 1234567].map(count), ["–", "1,234,567"]);
  assert.deepEqual([0.5, 0.001].map(percent), ["50 %", "0.10 %"]);
  assert.equal(moment("2026-11-19 01:00:00"), Date.UTC(2026, 10, 19, 1));
});

test("whole numbers beyond 2^53 are shown and sent as they came", () => {
  const text = '[[9007199254740993,1.5,12,"9007199254740993"]]';
  const [row] = parseExactly(text) as [unknown[]];
  assert.deepEqual(row.map(cell), ["9007199254740993", "1.5", "12", "9007199254740993"]);
  assert.equal(JSON.stringify([row]), text);
});

test("values of rows are text", () => {
  assert.deepEqual([null, { a: [1] }, "<b>", true].map(cell), ["NULL", '{"a":[1]}', "<b>", "true"]);
});

test("commands are found by letters in order, the nearest first", () => {
  const commands = ["top_spenders", "spend", "orders"].map((title) => ({ title, about: "", run: () => {} }));
  const found = (text: string) => matching(text, commands).map((one) => one.title);
  assert.deepEqual(found("spend"), ["spend", "top_spenders"]);
  assert.deepEqual(found("tsp"), ["top_spenders"]);
  assert.deepEqual(found("x"), []);
});

test("what is read stands left of its readers, and five hundred readers make no tower", () => {
  const names = ["t", ...Array.from({ length: 500 }, (_, at) => `v${at}`)];
  const { nodes, edges, width, height } = place({ names, edges: names.slice(1).map((name) => ["t", name]) });
  assert.equal(edges.length, 500);
  assert.ok(names.slice(1).every((name) => nodes[name]!.x > nodes.t!.x));
  assert.ok(height < width);
  assert.equal(new Set(Object.values(nodes).map(({ x, y }) => `${x} ${y}`)).size, 501);
});

test("sources, feeds and published tables are nodes with edges of their own", () => {
  const relation = (name: string, kind: string, reads: string[]) =>
    ({ name, kind, reads, rows: 1, state: "fresh", note: "" }) as unknown as Relation;
  const status = {
    sources: [{ name: "crm", kind: "sqlite", tables: ["tickets"], sync: "manual" }],
    feeds: [{ name: "orders", table: "orders", folder: "inbox", sync: "manual" }],
    tables: [relation("orders", "table", []), relation("spend_errors", "table", [])],
    views: [relation("spend", "view", ["orders", "crm.tickets"])],
    published: { spend: "delta /lake/spend" },
    troubles: { spend: "the source does not answer" },
  } as unknown as Status;
  const reads = Object.fromEntries(nodesOf(status).map((node) => [node.id, node.reads]));
  assert.deepEqual(reads, {
    "source crm": [],
    "feed orders": [],
    orders: ["feed orders"],
    spend_errors: ["spend"],
    spend: ["orders", "source crm"],
    "published spend": ["spend"],
  });
  assert.equal(nodesOf(status).find((node) => node.id === "spend")?.state, "stopped");
});

test("what a text of statements takes is the most of them, whatever stands in texts, names and comments", () => {
  const roles = {
    "SELECT 'DROP TABLE t; DROP TABLE t' -- ; DROP TABLE t": "granted",
    "/* ; DROP */ SELECT `a;drop` FROM t WHERE b = \"; drop\" AND c = 'it''s; drop'": "granted",
    "SELECT 1; explain SELECT 1": "reader",
    "WITH a AS (SELECT 1) SELECT * FROM a;\n  delete from t": "writer",
    "INSERT INTO t VALUES (1); ALTER TABLE t DROP COLUMN a": "owner",
    "create or replace\ttemporary view v AS SELECT 1; DROP TEMPORARY VARIABLE a": "granted",
    "CREATE OR REPLACE MATERIALIZED VIEW temporary AS SELECT 1": "owner",
    "": "granted",
  };
  assert.deepEqual(Object.fromEntries(Object.keys(roles).map((sql) => [sql, roleFor(sql)])), roles);
});

test("what a role may not do has a reason", () => {
  const roles: Role[] = ["granted", "reader", "writer", "owner"];
  const offered = roles.map((role) => {
    me.value = { user: "ann", roles: [role], role, by: "cookie", login_needed: false };
    return roles.filter((needed) => refusal(needed) === "");
  });
  assert.deepEqual(offered, [roles.slice(0, 1), roles.slice(0, 2), roles.slice(0, 3), roles]);
  me.value = { user: "ann", roles: ["writer"], role: "writer", by: "cookie", login_needed: false };
  assert.equal(refusal("owner"), "This needs the role owner; yours is writer.");
});
