// The state and the kind of a relation, as a dot with a word.

import type { Kind, Relation, State } from "../server/answers.ts";
import { count, seconds } from "../base/format.ts";

export function StateBadge({ state }: { state: State }) {
  if (state === "unknown") return null;
  return (
    <span class={`badge state-${state}`}>
      <i class="dot" />
      {state}
    </span>
  );
}

export function KindBadge({ kind }: { kind: Kind }) {
  return (
    <span class={`badge kind ${kindClass(kind)}`}>
      <i class="square" />
      {kind}
    </span>
  );
}

/** "lake table" → "kind-lake": the class that colours a kind. */
export function kindClass(kind: string): string {
  return `kind-${kind.split(" ")[0]}`;
}

/** How far a view is behind, in words. */
export function behind(relation: Relation): string {
  const late = relation.staleness;
  if (late.epochs === 0) return "up to date";
  const since = late.seconds ? `, ${seconds(late.seconds)}` : "";
  return `${count(late.epochs)} epoch${late.epochs === 1 ? "" : "s"} behind${since}`;
}
