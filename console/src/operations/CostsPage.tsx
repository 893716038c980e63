// What views cost: the forecast of the next minute, the shares of the last hour, the refresh log.

import { bytes, count, percent, seconds, short } from "../base/format.ts";
import { address } from "../base/router.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { RefreshesTab } from "../relation/RefreshesTab.tsx";
import type { ViewCost } from "../server/answers.ts";
import { get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

interface ViewForecast {
  view: string;
  seconds: number;
  rows_in: number;
  refreshes: number;
  epochs_behind: number;
  catch_up_seconds: number;
}

const READ_MILLISECONDS = 4000;
const MOST = 30;

export function CostsPage() {
  return (
    <div class="page wide-page">
      <h1>Costs</h1>
      <ForecastCard />
      <h2>By view</h2>
      <ByView />
      <h2>Refresh log</h2>
      <RefreshesTab />
    </div>
  );
}

function ForecastCard() {
  const answer = useAnswer(() => get<{ forecast: ViewForecast[] }>("forecast"), "forecast", READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!answer.value) return null;
  const views = answer.value.forecast.map((one) => ({ ...one, total: one.seconds + one.catch_up_seconds }));
  const total = views.reduce((sum, one) => sum + one.total, 0);
  const rows = views.reduce((sum, one) => sum + one.rows_in, 0);
  const late = views.reduce((sum, one) => sum + one.catch_up_seconds, 0);
  const most = Math.max(...views.map((one) => one.total), 1e-9);
  return (
    <section class="card forecast">
      <h3>The next minute</h3>
      <p class="forecast-figure">
        <b>{seconds(total)}</b> of maintenance
        <span class="quiet">
          {percent(total / 60)} of a core, for {short(rows)} rows, if changes come as in the last five minutes
          {late > 0 && `; ${seconds(late)} of it to catch up`}
        </span>
      </p>
      <div class="bars">
        {views.slice(0, 8).map((one) => (
          <a key={one.view} href={address("relation", one.view, "costs")}>
            <span class="bars-name">{one.view}</span>
            <span class="bars-line">
              <i style={{ width: `${Math.max(1, (one.total / most) * 100)}%` }} />
            </span>
            <span class="bars-value">{seconds(one.total)}</span>
          </a>
        ))}
      </div>
    </section>
  );
}

function ByView() {
  const answer = useAnswer(() => get<{ costs: ViewCost[] }>("costs"), "costs", READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!answer.value) return <p class="quiet loading">Loading…</p>;
  return (
    <div class="scroll">
      <table class="log">
        <thead>
          <tr>
            <th>view</th>
            <th class="number">share</th>
            <th class="number">time</th>
            <th class="number">refreshes</th>
            <th class="number">recomputed</th>
            <th class="number">slowest</th>
            <th class="number">rows in</th>
            <th class="number">changed</th>
            <th class="number">memory</th>
            <th class="number">disk</th>
            <th>last reason</th>
          </tr>
        </thead>
        <tbody>
          {answer.value.costs.slice(0, MOST).map((one) => (
            <tr key={one.view}>
              <td>
                <a href={address("relation", one.view, "costs")}>{one.view}</a>
              </td>
              <td class="number">{percent(one.share)}</td>
              <td class="number">{seconds(one.seconds)}</td>
              <td class="number">{count(one.refreshes)}</td>
              <td class="number">{count(one.recomputed)}</td>
              <td class="number">{seconds(one.slowest)}</td>
              <td class="number">{count(one.rows_in)}</td>
              <td class="number">{count(one.rows_out)}</td>
              <td class="number">{bytes(one.memory_bytes)}</td>
              <td class="number">{bytes(one.disk_bytes)}</td>
              <td class="reason">{one.last_reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
