// What it has cost to keep a view fresh, over time.

import { useMemo } from "preact/hooks";
import { count, moment, seconds, short } from "../base/format.ts";
import { Chart } from "../parts/Chart.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import type { Refresh } from "../server/answers.ts";
import { get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

const READ_MILLISECONDS = 4000;
const ENTRIES = 500;

export function CostsTab({ name }: { name: string }) {
  const answer = useAnswer(() => refreshesOf(name, ENTRIES), name, READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  return answer.value ? <CostCharts entries={answer.value} /> : <p class="quiet loading">Loading…</p>;
}

export async function refreshesOf(view: string | undefined, limit: number): Promise<Refresh[]> {
  const found = await get<{ refreshes: Refresh[] }>("refreshes", { view, limit });
  return found.refreshes;
}

function CostCharts({ entries }: { entries: Refresh[] }) {
  const { times, perRow, each, rows } = useMemo(() => chartsOf(entries), [entries]);
  if (!entries.length) return <p class="quiet">No refresh has been recorded yet.</p>;
  const spent = entries.reduce((sum, one) => sum + one.seconds, 0);
  const epochs = entries.reduce((sum, one) => sum + one.epochs, 0);
  return (
    <div class="charts">
      <p class="quiet">
        {count(epochs)} refreshes in the last {entries.length} entries of the log took {seconds(spent)}.
      </p>
      <h3>Time of one refresh</h3>
      <Chart label="Time of one refresh" times={times} series={each} format={seconds} />
      <h3>Rows taken in and changed</h3>
      <Chart label="Rows taken in and changed" times={times} series={rows} format={short} />
      <h3>Time for each row taken in</h3>
      <Chart label="Time for each row taken in" times={times} series={perRow} format={seconds} />
    </div>
  );
}

function chartsOf(entries: Refresh[]) {
  const sorted = entries.slice().reverse();
  const line = (label: string, colour: string, value: (one: Refresh) => number | null) => ({
    label,
    colour,
    values: sorted.map((one) => value(one) || null),
  });
  return {
    times: sorted.map((one) => moment(one.time) / 1000),
    each: [
      line("slowest", "--series-2", (one) => one.slowest),
      line("mean", "--series-1", (one) => one.seconds / Math.max(1, one.epochs)),
    ],
    rows: [line("in", "--series-1", (one) => one.rows_in), line("changed", "--series-2", (one) => one.rows_out)],
    perRow: [line("a row", "--series-3", (one) => (one.rows_in ? one.seconds / one.rows_in : null))],
  };
}
