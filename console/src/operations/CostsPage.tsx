// What views cost: the forecast of the next minute, the shares of the last hour, the refresh log.

import { bytes, count, seconds, share, short } from "../base/format.ts";
import { address } from "../base/router.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { RefreshesTab } from "../relation/RefreshesTab.tsx";
import type { ViewCost } from "../server/answers.ts";
import { get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

interface Forecast {
  seconds: number;
  share?: number | null;
  rows?: number | null;
  views: { view: string; seconds: number; epochs?: number; rows?: number; reason?: string }[];
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
  const answer = useAnswer(() => get<Forecast>("forecast"), "forecast", READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  const forecast = answer.value;
  if (!forecast) return null;
  const most = Math.max(...forecast.views.map((one) => one.seconds), 1e-9);
  return (
    <section class="card forecast">
      <h3>The next minute</h3>
      <p class="forecast-figure">
        <b>{seconds(forecast.seconds)}</b> of maintenance
        <span class="quiet">
          {share(forecast.seconds / 60)} of a core
          {forecast.rows ? `, for ${short(forecast.rows)} rows` : ""}, if changes come as they came lately
        </span>
      </p>
      <div class="bars">
        {forecast.views.slice(0, 8).map((one) => (
          <a key={one.view} href={address("relation", one.view, "costs")}>
            <span class="bars-name">{one.view}</span>
            <span class="bars-line">
              <i style={{ width: `${Math.max(1, (one.seconds / most) * 100)}%` }} />
            </span>
            <span class="bars-value">{seconds(one.seconds)}</span>
          </a>
        ))}
      </div>
    </section>
  );
}

function ByView() {
  const answer = useAnswer(() => get<{ costs: ViewCost[] }>("costs", { limit: MOST }), "costs", READ_MILLISECONDS);
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
          {answer.value.costs.map((one) => (
            <tr key={one.view}>
              <td>
                <a href={address("relation", one.view, "costs")}>{one.view}</a>
              </td>
              <td class="number">{share(one.share)}</td>
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
