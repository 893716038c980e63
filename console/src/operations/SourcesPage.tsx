// Sources, feeds, lake tables and published tables, and where each stands.

import { address } from "../base/router.ts";
import { kindClass } from "../parts/Badges.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";

interface Source {
  name: string;
  kind: string;
  location: string;
  position: string | Record<string, string> | null;
  sync: string;
  views: string[];
  trouble: string;
}

const READ_MILLISECONDS = 3000;

export function SourcesPage() {
  const answer = useAnswer(() => get<{ sources: Source[] }>("sources"), "sources", READ_MILLISECONDS);
  return (
    <div class="page">
      <h1>Sources</h1>
      <p class="quiet">Databases, folders and lake tables that bring changes, with the position up to which they were taken in.</p>
      {answer.error !== undefined && <ErrorBox error={answer.error} again={answer.again} />}
      <div class="plan-columns">
        {answer.value?.sources.map((one) => (
          <section class="card" key={`${one.kind} ${one.name}`}>
            <h3>
              {one.name}
              <span class={`badge kind ${kindClass(one.kind)}`}>
                <i class="square" />
                {one.kind}
              </span>
            </h3>
            <dl class="facts">
              {one.location && <Fact name="where" value={one.location} />}
              {one.sync && <Fact name="sync" value={one.sync} />}
              <Positions position={one.position} />
            </dl>
            {one.trouble && <p class="trouble">{one.trouble}</p>}
            {one.views.length ? (
              <p class="links">
                {one.views.map((view) => (
                  <a key={view} href={address("relation", view)}>
                    {view}
                  </a>
                ))}
              </p>
            ) : null}
          </section>
        ))}
      </div>
      {answer.value && !answer.value.sources.length && (
        <p class="nothing-here">No source, feed or lake table is declared. Rows come by apply, load and SQL.</p>
      )}
    </div>
  );
}

function Positions({ position }: { position: Source["position"] }) {
  if (position === null) return null;
  if (typeof position === "string") return <Fact name="position" value={position} />;
  return (
    <>
      {Object.entries(position).map(([name, at]) => (
        <Fact key={name} name={name} value={at} />
      ))}
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
