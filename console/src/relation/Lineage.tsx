// The base rows that a row of a view comes from, by table.

import { cell } from "../base/format.ts";
import { address } from "../base/router.ts";
import { Dialog } from "../parts/Dialog.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { Icon } from "../parts/Icon.tsx";
import { VirtualRows } from "../parts/VirtualRows.tsx";
import type { Column, Row } from "../server/answers.ts";
import { ofView, post } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

interface LineageAnswer {
  tables: Record<string, { columns: Column[]; rows: Row[] }>;
}

const HEAD = 30;
const ROW = 30;
const MOST_SHOWN = 8;

export function Lineage({ view, columns, row, close }: { view: string; columns: Column[]; row: Row; close: () => void }) {
  const answer = useAnswer(() => post<LineageAnswer>(ofView(view, "lineage"), { row }), JSON.stringify(row));
  const tables = Object.entries(answer.value?.tables ?? {});
  return (
    <Dialog label="Lineage of a row" side onClose={close}>
      <div class="lineage">
        <header>
          <h2>Where this row comes from</h2>
          <button type="button" class="plain" aria-label="Close" onClick={close}>
            <Icon name="close" />
          </button>
        </header>
        <dl class="record">
          {columns.map((column, at) => (
            <div key={column.name}>
              <dt>{column.name}</dt>
              <dd class={row[at] === null ? "null" : ""}>{cell(row[at])}</dd>
            </div>
          ))}
        </dl>
        {answer.error !== undefined && <ErrorBox error={answer.error} again={answer.again} />}
        {answer.loading && <p class="quiet">Looking…</p>}
        {tables.map(([table, found]) => (
          <section key={table}>
            <h3>
              <a href={address("relation", table)} onClick={close}>
                {table}
              </a>
              <span class="quiet">{found.rows.length === 1 ? "1 row" : `${found.rows.length} rows`}</span>
            </h3>
            <div style={{ height: `${HEAD + ROW * Math.min(MOST_SHOWN, found.rows.length) + 20}px` }} class="lineage-rows">
              <VirtualRows columns={found.columns} rows={found.rows} label={`Rows of ${table}`} />
            </div>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
