// How a view is kept fresh: a picture of its program, the choice of its strategy with what was predicted, the whole text.

import { bytes, count, short } from "../base/format.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { get, ofView } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { PlanPicture } from "./PlanPicture.tsx";
import type { Decision, ExplainAnswer, PlanStage } from "./plan.ts";

const MOST_DECISIONS = 3;

export function PlanTab({ name }: { name: string }) {
  const answer = useAnswer(() => get<ExplainAnswer>(ofView(name, "explain")), name);
  const plan = answer.value;
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!plan) return <p class="quiet loading">Loading…</p>;
  return (
    <div class="plan">
      <PlanPicture graph={plan.graph} />
      <div class="plan-columns">
        {plan.stages.map((stage) => (
          <Stage key={stage.name} stage={stage} />
        ))}
        {plan.decisions
          .slice(-MOST_DECISIONS)
          .reverse()
          .map((decision, at) => (
            <Choice key={at} decision={decision} />
          ))}
        <Facts facts={plan.facts} />
      </div>
      {plan.comparison.length > 0 && <pre class="listing">{plan.comparison.join("\n")}</pre>}
      <details class="card">
        <summary>All of EXPLAIN as text</summary>
        <pre class="listing">{plan.text}</pre>
      </details>
    </div>
  );
}

function Stage({ stage }: { stage: PlanStage }) {
  const [code, ...reason] = stage.why.split(", ");
  return (
    <section class="card">
      <h3>
        {stage.name} <span class="badge">{stage.strategy}</span>
      </h3>
      <p class="why">
        <b>{code}</b> {reason.join(", ")}
      </p>
      {stage.note && <p class="quiet">{stage.note}</p>}
      {stage.maps.length > 0 && (
        <table class="small">
          <thead>
            <tr>
              <th>map</th>
              <th class="number">entries</th>
            </tr>
          </thead>
          <tbody>
            {stage.maps.map((map) => (
              <tr key={map.name}>
                <td>
                  {map.name}
                  <small>
                    [{map.keys.join(", ")}]{map.values.length > 0 && ` → ${map.values.join(", ")}`}
                  </small>
                </td>
                <td class="number">{count(map.entries)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {stage.triggers.map((trigger) => (
        <details key={trigger.relation} class="trigger">
          <summary>
            a change of {trigger.relation} <span class="badge">{trigger.cost}</span>
          </summary>
          <pre class="listing">{trigger.statements.join("\n")}</pre>
        </details>
      ))}
    </section>
  );
}

function Choice({ decision }: { decision: Decision }) {
  const most = Math.max(...decision.candidates.map((one) => one.visits), 1e-9);
  return (
    <section class="card">
      <h3>
        Chosen: {decision.chosen}
        <span class="badge">
          {decision.cause}, epoch {count(decision.epoch)}
        </span>
      </h3>
      <p>{decision.reason}</p>
      {decision.candidates.length > 0 && <Candidates decision={decision} most={most} />}
      {decision.measured !== null && <p class="quiet">Measured since: {short(decision.measured)} µs a change.</p>}
    </section>
  );
}

function Candidates({ decision, most }: { decision: Decision; most: number }) {
  return (
    <table class="small candidates">
      <thead>
        <tr>
          <th>candidate</th>
          <th>predicted visits a change</th>
          <th class="number">state</th>
        </tr>
      </thead>
      <tbody>
        {decision.candidates.map((one) => (
          <tr key={`${one.stage} ${one.strategy}`} class={decision.chosen.includes(one.strategy) ? "taken" : ""}>
            <td>
              {one.strategy}
              <small>{one.stage}</small>
            </td>
            <td>
              <span class="bar" style={{ width: `${Math.max(2, (one.visits / most) * 100)}%` }} />
              {short(one.visits)}
            </td>
            <td class="number">{bytes(one.bytes)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Facts({ facts }: { facts: Record<string, string> }) {
  return (
    <section class="card">
      <h3>How it runs</h3>
      <dl class="facts">
        {Object.entries(facts).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
