// How right a view over sources is, and which state of each source it shows.

import { count } from "../base/format.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { get, ofView } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

interface CertificateAnswer {
  level: string;
  positions: Record<string, unknown>;
  certified?: { epoch: number; positions: Record<string, unknown> }[];
}

const READ_MILLISECONDS = 3000;

const LEVELS: Record<string, string> = {
  complete: "It shows every state of its sources, in order.",
  "strongly consistent": "Each state that it shows is one of its sources, in order; some may be left out.",
  strong: "Each state that it shows is one of its sources, in order; some may be left out.",
  consistent: "Each state that it shows is one of its sources.",
  weak: "Each state that it shows is one of its sources, perhaps not in order.",
  convergent: "Once its sources stand still, it is right.",
};

export function CertificateTab({ name }: { name: string }) {
  const answer = useAnswer(() => get<CertificateAnswer>(ofView(name, "certificate")), name, READ_MILLISECONDS);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!answer.value) return <p class="quiet loading">Loading…</p>;
  const { level, positions, certified = [] } = answer.value;
  return (
    <div class="plan-columns">
      <section class="card certificate">
        <h3>
          <span class="seal">{level}</span>
        </h3>
        <p>{LEVELS[level.toLowerCase()] ?? ""}</p>
        <h4>States of the sources that it shows</h4>
        <Positions positions={positions} />
      </section>
      {certified.length > 0 && (
        <section class="card">
          <h3>States that it has shown</h3>
          <table class="small">
            <tbody>
              {certified.map((one) => (
                <tr key={one.epoch}>
                  <td class="number">epoch {count(one.epoch)}</td>
                  <td>
                    <Positions positions={one.positions} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  );
}

function Positions({ positions }: { positions: Record<string, unknown> }) {
  return (
    <dl class="facts">
      {Object.entries(positions).map(([source, position]) => (
        <div key={source}>
          <dt>{source}</dt>
          <dd>{typeof position === "string" ? position : JSON.stringify(position)}</dd>
        </div>
      ))}
    </dl>
  );
}
