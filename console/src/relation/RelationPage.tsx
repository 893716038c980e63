// A table or view: what it is and how fresh, and everything about it behind tabs.

import { useSignal } from "@preact/signals";
import { bytes, count, rate, seconds } from "../base/format.ts";
import { address } from "../base/router.ts";
import { behind, KindBadge, StateBadge } from "../parts/Badges.tsx";
import { ActButton, Refusal } from "../parts/ActButton.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { Icon } from "../parts/Icon.tsx";
import { Sparkline } from "../parts/Sparkline.tsx";
import { type Tab, Tabs } from "../parts/Tabs.tsx";
import type { Relation } from "../server/answers.ts";
import { readsEverything } from "../server/me.ts";
import type { Node } from "../server/nodes.ts";
import { ofView, post, ServerError } from "../server/request.ts";
import { flowOf, nodesById, pulse, readStatus, status } from "../server/status.ts";
import { CertificateTab } from "./CertificateTab.tsx";
import { ChangesTab } from "./ChangesTab.tsx";
import { CostsTab } from "./CostsTab.tsx";
import { DefinitionTab } from "./DefinitionTab.tsx";
import { ErrorsTab } from "./ErrorsTab.tsx";
import { PlanTab } from "./PlanTab.tsx";
import { RefreshesTab } from "./RefreshesTab.tsx";
import { RowsTab } from "./RowsTab.tsx";

export function RelationPage({ name, tab }: { name: string; tab: string }) {
  const node = nodesById.value.get(name);
  if (!status.value) return <p class="quiet loading">Loading…</p>;
  if (!node?.relation) return <Unknown name={name} />;
  const tabs = tabsOf(node);
  const chosen = tabs.some((one) => one.id === tab) ? tab : (tabs[0]?.id ?? "");
  return (
    <div class="relation">
      <Head node={node} relation={node.relation} />
      <Tabs tabs={tabs} chosen={chosen} page="relation" name={name} />
      <section class="tab-page" role="tabpanel" aria-label={chosen}>
        {contentOf(chosen, node)}
      </section>
    </div>
  );
}

function tabsOf(node: Node): Tab[] {
  if (node.kind !== "view") {
    const plain = [{ id: "rows", title: "Rows" }, { id: "definition", title: "Definition" }];
    if (!readsEverything()) return plain.slice(0, 1);
    return node.kind === "table" ? plain : plain.slice(1);
  }
  const seen = [
    { id: "rows", title: "Rows" },
    { id: "changes", title: "Live changes" },
  ];
  if (!readsEverything()) return seen;
  return [
    ...seen,
    { id: "plan", title: "Plan" },
    { id: "costs", title: "Costs" },
    { id: "refreshes", title: "Refreshes" },
    { id: "definition", title: "Definition" },
    ...(node.reads.some((id) => nodesById.value.get(id)?.kind === "source") ? [{ id: "certificate", title: "Certificate" }] : []),
    ...(node.relation?.state === "quarantined" ? [{ id: "errors", title: "Held-back rows" }] : []),
  ];
}

function contentOf(tab: string, node: Node) {
  switch (tab) {
    case "rows":
      return <RowsTab node={node} />;
    case "changes":
      return <ChangesTab name={node.id} />;
    case "plan":
      return <PlanTab name={node.id} />;
    case "costs":
      return <CostsTab name={node.id} />;
    case "refreshes":
      return <RefreshesTab view={node.id} />;
    case "certificate":
      return <CertificateTab name={node.id} />;
    case "errors":
      return <ErrorsTab name={node.id} />;
    default:
      return <DefinitionTab node={node} />;
  }
}

function Head({ node, relation }: { node: Node; relation: Relation }) {
  return (
    <header class="relation-head">
      <div class="relation-title">
        <a class="plain back" href={address("graph")} aria-label="Back to the graph">
          <Icon name="back" />
        </a>
        <h1>{relation.name}</h1>
        <KindBadge kind={node.kind} />
        <StateBadge state={node.state} />
        {relation.kind === "view" && !["immediate", ""].includes(relation.refresh) && <RefreshButton view={relation.name} />}
      </div>
      {node.about && <p class="quiet">{node.about}</p>}
      {node.state !== "unknown" && <Figures node={relation} />}
    </header>
  );
}

function RefreshButton({ view }: { view: string }) {
  const running = useSignal(false);
  const failed = useSignal<unknown>(undefined);
  const refresh = async () => {
    running.value = true;
    failed.value = undefined;
    try {
      await post(ofView(view, "refresh"));
      await readStatus();
    } catch (fault) {
      failed.value = fault;
    } finally {
      running.value = false;
    }
  };
  return (
    <>
      <ActButton needs="owner" disabled={running.value} onClick={() => void refresh()}>
        <Icon name="refresh" size={15} /> {running.value ? "Refreshing…" : "Refresh"}
      </ActButton>
      <Refusal needs="owner" />
      {failed.value !== undefined && <ErrorBox error={failed.value} />}
    </>
  );
}

function Figures({ node }: { node: Relation }) {
  void pulse.value;
  const flow = flowOf(node.name);
  return (
    <dl class="figures">
      <Figure name="Rows" value={count(node.rows)} />
      <Figure name="Freshness" value={behind(node)} />
      <div class="with-line">
        <dt>Changing</dt>
        <dd>{rate(flow.busiest)}</dd>
        <Sparkline flow={flow} width={96} height={30} />
      </div>
      {flow.ms > 0 && <Figure name="Per epoch" value={seconds(flow.ms / 1000)} />}
      {node.strategy && <Figure name="Strategy" value={node.strategy} />}
      {node.runtime && <Figure name="Runtime" value={node.runtime} />}
      {node.refresh && <Figure name="Refresh" value={node.refresh} />}
      {node.bytes !== null && <Figure name="State" value={bytes(node.bytes)} />}
    </dl>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Unknown({ name }: { name: string }) {
  const error = new ServerError(
    { kind: "UnknownName", what: `there is no table or view "${name}"`, hint: "It may have been dropped. Press Ctrl K to find another." },
    404,
  );
  return <ErrorBox error={error} />;
}
