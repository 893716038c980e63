// The rows of a table or view: of now, kept fresh, or of an epoch that the slider chooses.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { count } from "../base/format.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { VirtualRows } from "../parts/VirtualRows.tsx";
import type { Row, RowsAnswer } from "../server/answers.ts";
import { readsEverything } from "../server/me.ts";
import type { Node } from "../server/nodes.ts";
import { endpoint, get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { flowOf, pulse } from "../server/status.ts";
import { Lineage } from "./Lineage.tsx";
import { TimeTravel } from "./TimeTravel.tsx";

const FIRST_ROWS = 500;
const MOST_ROWS = 100_000;
/** How often rows are read again where no stream tells of changes. */
const READ_MILLISECONDS = 2000;

export function RowsTab({ node }: { node: Node }) {
  const at = useSignal<number | null>(null);
  const limit = useSignal(FIRST_ROWS);
  const order = useSignal("");
  const where = useSignal("");
  const picked = useSignal<Row | null>(null);
  const path = `${node.kind === "view" ? "views" : "tables"}/${encodeURIComponent(node.id)}`;
  const query = { epoch: at.value ?? undefined, limit: limit.value, order: order.value, where: where.value };
  const key = JSON.stringify([path, query]);
  const ofAll = readsEverything();
  const answer = useAnswer(() => get<RowsAnswer>(path, query), key, ofAll ? 0 : READ_MILLISECONDS);
  const shown = useLast(answer.value);
  useEffect(() => answer.again(), [node.relation?.epoch]);
  useFresh(node.id, at.value === null, answer.again);

  const rows = shown?.rows ?? [];
  const more = () => {
    if (rows.length >= limit.value && limit.value < MOST_ROWS) limit.value = Math.min(MOST_ROWS, limit.value * 4);
  };
  return (
    <div class="rows-tab">
      {ofAll && <TimeTravel at={at.value} choose={(epoch) => (at.value = epoch)} />}
      <form class="rows-tools" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span>Where</span>
          <input
            type="text"
            placeholder={shown?.columns[0] ? `${shown.columns[0].name}:value` : "column:value"}
            value={where.value}
            onChange={(event) => (where.value = event.currentTarget.value.trim())}
          />
        </label>
        <label>
          <span>Order</span>
          <select value={order.value} onChange={(event) => (order.value = event.currentTarget.value)}>
            <option value="">none</option>
            {shown?.columns.flatMap((column) => [
              <option key={column.name} value={column.name}>{`${column.name} ↑`}</option>,
              <option key={`${column.name} desc`} value={`${column.name} desc`}>{`${column.name} ↓`}</option>,
            ])}
          </select>
        </label>
        <span class="quiet rows-count">
          {shown ? `${count(rows.length)}${rows.length >= limit.value ? "+" : ""} rows at epoch ${count(shown.epoch)}` : ""}
        </span>
        <a class="button" href={endpoint(path, { ...query, limit: undefined })} download={`${node.id}.json`}>
          Save
        </a>
      </form>
      {answer.error !== undefined && <ErrorBox error={answer.error} again={answer.again} />}
      {shown && (
        <VirtualRows
          columns={shown.columns}
          rows={rows}
          label={`Rows of ${node.id}`}
          onEnd={more}
          onPick={node.kind === "view" && ofAll ? (row) => (picked.value = row) : undefined}
        />
      )}
      {shown && !rows.length && <p class="quiet">No rows.</p>}
      {picked.value && shown && (
        <Lineage view={node.id} columns={shown.columns} row={picked.value} close={() => (picked.value = null)} />
      )}
    </div>
  );
}

/** The last value there was, so that nothing flickers while the next one is asked for. */
function useLast<T>(value: T | undefined): T | undefined {
  const kept = useMemo(() => ({ value }), []);
  if (value !== undefined) kept.value = value;
  return kept.value;
}

/** Asks again whenever the flow of a relation has shown a change: four times a second at most, as events come. */
function useFresh(name: string, wanted: boolean, again: () => void): void {
  useEffect(() => {
    if (!wanted) return undefined;
    let seen = flowOf(name).changed;
    return pulse.subscribe(() => {
      const changed = flowOf(name).changed;
      if (changed === seen) return;
      seen = changed;
      again();
    });
  }, [name, wanted, again]);
}
