// The refresh log: when a view was refreshed, in which way, and why so.

import { bytes, clock, count, seconds } from "../base/format.ts";
import { address } from "../base/router.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import type { Refresh } from "../server/answers.ts";
import { useAnswer } from "../server/resource.ts";
import { refreshesOf } from "./CostsTab.tsx";

const READ_MILLISECONDS = 3000;
const ENTRIES = 100;

export function RefreshesTab({ view }: { view?: string }) {
  const answer = useAnswer(() => refreshesOf(view, ENTRIES), view ?? "", READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!answer.value) return <p class="quiet loading">Loading…</p>;
  if (!answer.value.length) return <p class="quiet">No refresh has been recorded yet.</p>;
  return (
    <div class="scroll">
      <table class="log">
        <thead>
          <tr>
            <th>time</th>
            {!view && <th>view</th>}
            <th class="number">epoch</th>
            <th>way</th>
            <th class="number">rows in</th>
            <th class="number">changed</th>
            <th class="number">time</th>
            <th class="number">slowest</th>
            <th class="number">written</th>
            <th>why</th>
          </tr>
        </thead>
        <tbody>
          {answer.value.map((one, index) => (
            <Entry key={index} one={one} named={!view} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Entry({ one, named }: { one: Refresh; named: boolean }) {
  return (
    <tr>
      <td>{clock(one.time)}</td>
      {named && <td>{one.view === null ? <i>whole epochs</i> : <a href={address("relation", one.view)}>{one.view}</a>}</td>}
      <td class="number">
        {count(one.epoch)}
        {one.epochs > 1 && <small> ×{count(one.epochs)}</small>}
      </td>
      <td>
        <span class={`badge way-${one.way.replace(" ", "-")}`}>{one.way || "epoch"}</span>
      </td>
      <td class="number">{count(one.rows_in)}</td>
      <td class="number">{count(one.rows_out)}</td>
      <td class="number">{seconds(one.seconds)}</td>
      <td class="number">{seconds(one.slowest)}</td>
      <td class="number">{bytes(one.bytes)}</td>
      <td class="reason">{[one.strategy, one.runtime, one.reason].filter(Boolean).join(" · ")}</td>
    </tr>
  );
}
