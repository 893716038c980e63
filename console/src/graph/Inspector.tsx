// What is known of one node, beside the graph.

import { bytes, count, rate, seconds } from "../base/format.ts";
import { address } from "../base/router.ts";
import { behind, KindBadge, StateBadge } from "../parts/Badges.tsx";
import { Icon } from "../parts/Icon.tsx";
import { Sparkline } from "../parts/Sparkline.tsx";
import type { Relation } from "../server/answers.ts";
import type { Node } from "../server/nodes.ts";
import { type Flow, flowOf, nodes, nodesById, pulse, status } from "../server/status.ts";

export function Inspector({ node, close }: { node: Node; close: () => void }) {
  void pulse.value;
  const flow = flowOf(node.id);
  const readers = nodes.value.filter((one) => one.reads.includes(node.id));
  const told = node.state !== "unknown";
  const trouble = status.value?.troubles[node.label];
  return (
    <aside class="inspector" aria-label={`About ${node.label}`}>
      <header>
        <h2>{node.label}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <p class="badges">
        <KindBadge kind={node.kind} />
        <StateBadge state={node.state} />
      </p>
      {told && <Flowing node={node} flow={flow} />}
      {told && node.relation && <Facts relation={node.relation} flow={flow} />}
      {node.about && <p class="quiet">{node.about}</p>}
      {trouble && <p class="trouble">{trouble}</p>}
      <Links title="Reads" ids={node.reads} />
      <Links title="Read by" ids={readers.map((one) => one.id)} />
      <a class="button main" href={node.relation ? address("relation", node.id) : address("sources")}>
        Open {node.relation ? node.kind : "sources"}
      </a>
    </aside>
  );
}

function Flowing({ node, flow }: { node: Node; flow: Flow }) {
  return (
    <div class="inspector-flow">
      <Sparkline flow={flow} width={268} height={44} />
      <span>
        <b>{rate(flow.busiest)}</b> rows {flow.out > 0 || node.kind !== "table" ? "changed" : "taken in"}
      </span>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string | null | undefined }) {
  if (!value) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function Facts({ relation, flow }: { relation: Relation; flow: Flow }) {
  return (
    <dl class="facts">
      <dt>Freshness</dt>
      <dd>{behind(relation)}</dd>
      <Fact name="Rows" value={relation.rows === null ? null : count(relation.rows)} />
      <Fact name="Shows epoch" value={count(Math.max(relation.epoch, flow.epoch))} />
      <Fact name="Strategy" value={relation.strategy} />
      <Fact name="Runtime" value={relation.runtime} />
      <Fact name="Refresh" value={relation.refresh} />
      <Fact name="Stored" value={relation.bytes === null ? null : bytes(relation.bytes)} />
      <Fact name="Per epoch" value={flow.ms ? seconds(flow.ms / 1000) : null} />
    </dl>
  );
}

const MOST_LINKS = 12;

function Links({ title, ids }: { title: string; ids: string[] }) {
  const known = ids.map((id) => nodesById.value.get(id)).filter((node) => node !== undefined);
  if (!known.length) return null;
  return (
    <section class="links">
      <h3>{title}</h3>
      {known.slice(0, MOST_LINKS).map((node) => (
        <a key={node.id} href={node.relation ? address("relation", node.id) : address("sources")}>
          {node.label}
        </a>
      ))}
      {known.length > MOST_LINKS && <span class="quiet">and {known.length - MOST_LINKS} more</span>}
    </section>
  );
}
