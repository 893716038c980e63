// The shapes of the server's answers, as far as the console reads them.

export type Kind = "table" | "stream" | "lake table" | "view" | "source" | "feed" | "published";
/** "unknown" is what somebody is told who may not read everything. */
export type State = "fresh" | "behind" | "building" | "quarantined" | "stopped" | "unknown";

export interface Relation {
  name: string;
  kind: Kind;
  reads: string[];
  rows: number | null;
  epoch: number;
  staleness: { epochs: number; seconds: number };
  state: State;
  strategy: string;
  runtime: string;
  refresh: string;
  bytes: number | null;
  note: string;
}

export interface Source {
  name: string;
  kind: string;
  tables: string[];
  sync: string;
}

export interface Feed {
  name: string;
  table: string;
  folder: string;
  sync: string;
}

export interface Build {
  view: string;
  state: string;
  /** Of `total` input rows; that is 0 while nothing is known, as of a build that is paused. */
  rows: number;
  total: number;
  share: number;
  rate: number | null;
  seconds_left: number | null;
  behind: number | null;
  reason: string | null;
}

export interface Status {
  warehouse: string;
  version: string;
  epoch: number;
  oldest: number;
  committed_at: string | null;
  tables: Relation[];
  views: Relation[];
  sources: Source[];
  feeds: Feed[];
  published: Record<string, string>;
  builds: Build[];
  troubles: Record<string, string>;
}

export interface Activity {
  rows_in: number;
  rows_out: number;
  refreshes: number;
  epoch: number;
  ms: number;
}

export interface StatusEvent {
  epoch: number;
  nodes: Record<string, Activity>;
}

export interface Column {
  name: string;
  type: string;
}

export type Row = unknown[];

export interface RowsAnswer {
  columns: Column[];
  rows: Row[];
  epoch: number;
  total?: number | null;
}

export interface ChangeEvent {
  epoch: number;
  weights: number[];
  rows: Row[];
}

export interface SqlResult {
  columns: Column[];
  rows: Row[];
  count: number;
  epoch: number;
  seconds: number;
  message: string;
  notes: string[];
}

export interface Catalog {
  relations: { name: string; kind: Kind; columns: Column[] }[];
  functions: string[];
  keywords: string[];
}

export interface Refresh {
  time: string | number;
  view: string | null;
  epoch: number;
  epochs: number;
  way: string;
  rows_in: number;
  rows_out: number;
  seconds: number;
  slowest: number;
  bytes: number;
  strategy: string;
  runtime: string;
  reason: string;
}

export interface ViewCost {
  view: string;
  refreshes: number;
  recomputed: number;
  seconds: number;
  slowest: number;
  share: number;
  rows_in: number;
  rows_out: number;
  bytes: number;
  memory_bytes: number;
  disk_bytes: number;
  last_reason: string;
}
