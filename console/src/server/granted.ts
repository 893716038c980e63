// What is told to somebody who may not read everything: the names of tables and views that were granted, not their state.

import type { Kind, Relation, SqlResult, Status } from "./answers.ts";
import { post } from "./request.ts";

const NAMES = "SELECT table_name, table_type FROM information_schema.tables ORDER BY table_name";
const RIGHTS = "SHOW GRANTS";

const KINDS: Record<string, Kind> = { "BASE TABLE": "table", STREAM: "stream", "LAKE TABLE": "lake table" };

export async function readGranted(): Promise<Status> {
  const found = await resultOf(NAMES);
  const relations = found.rows.map(([name, type]) => relation(String(name), KINDS[String(type)] ?? "view", found.epoch));
  return {
    warehouse: "Tidemill",
    version: "",
    epoch: found.epoch,
    oldest: found.epoch,
    committed_at: null,
    tables: relations.filter((one) => one.kind !== "view"),
    views: relations.filter((one) => one.kind === "view"),
    sources: [],
    feeds: [],
    published: {},
    builds: [],
    troubles: {},
  };
}

/** True if something was granted that changes rows. */
export async function mayChangeSomeRows(): Promise<boolean> {
  const { rows } = await resultOf(RIGHTS);
  return rows.some(([, privilege]) => privilege !== "SELECT");
}

async function resultOf(sql: string): Promise<SqlResult> {
  const { results } = await post<{ results: SqlResult[] }>("sql", { sql });
  return results[0]!;
}

function relation(name: string, kind: Kind, epoch: number): Relation {
  const staleness = { epochs: 0, seconds: 0 };
  const unknown = { rows: null, bytes: null, strategy: "", runtime: "", refresh: "", note: "" };
  return { name, kind, reads: [], epoch, staleness, state: "unknown", ...unknown };
}
