// The answer of EXPLAIN, as the page about a plan reads it.

export interface Box {
  name: string;
  kind: string;
  note: string;
}

export interface Arrow {
  source: string;
  target: string;
  looked_up: boolean;
}

export interface PlanMap {
  name: string;
  keys: string[];
  values: string[];
  entries: number | null;
}

export interface PlanTrigger {
  relation: string;
  cost: string;
  statements: string[];
}

export interface PlanStage {
  name: string;
  strategy: string;
  why: string;
  note: string;
  inputs: string[];
  columns: string[];
  rows: number | null;
  maps: PlanMap[];
  triggers: PlanTrigger[];
}

export interface Decision {
  epoch: number;
  cause: string;
  chosen: string;
  reason: string;
  visits: number | null;
  bytes: number | null;
  measured: number | null;
  candidates: { stage: string; strategy: string; visits: number; bytes: number }[];
}

export interface ExplainAnswer {
  text: string;
  facts: Record<string, string>;
  stages: PlanStage[];
  graph: { boxes: Box[]; arrows: Arrow[] };
  comparison: string[];
  decisions: Decision[];
}
