// What is told to somebody who may not read everything: the tables and views that he may see, and not their state.

import type { Catalog, Kind, Relation, SqlResult, Status } from "./answers.ts";
import { get, post } from "./request.ts";

export async function readGranted(): Promise<Status> {
  const { relations } = await get<Catalog>("catalog");
  const of = (view: boolean) => relations.filter((one) => (one.kind === "view") === view).map((one) => relation(one.name, one.kind));
  return {
    warehouse: "Tidemill",
    version: "",
    epoch: 0,
    oldest: 0,
    committed_at: null,
    tables: of(false),
    views: of(true),
    sources: [],
    feeds: [],
    published: {},
    builds: [],
    troubles: {},
  };
}

/** True if something was granted that changes rows. */
export async function mayChangeSomeRows(): Promise<boolean> {
  const { results } = await post<{ results: SqlResult[] }>("sql", { sql: "SHOW GRANTS" });
  return results[0]!.rows.some(([, privilege]) => privilege !== "SELECT");
}

function relation(name: string, kind: Kind): Relation {
  const unknown = { rows: null, bytes: null, strategy: "", runtime: "", refresh: "", note: "" };
  return { name, kind, reads: [], epoch: 0, staleness: { epochs: 0, seconds: 0 }, state: "unknown", ...unknown };
}
