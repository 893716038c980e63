// All relations beside the graph, with a filter; the way in for keyboards, readers and phones.

import { useSignal } from "@preact/signals";
import { address } from "../base/router.ts";
import { rate, short } from "../base/format.ts";
import { kindClass } from "../parts/Badges.tsx";
import { Icon } from "../parts/Icon.tsx";
import { VirtualList } from "../parts/VirtualList.tsx";
import type { Node } from "../server/nodes.ts";
import { flows, nodes, pulse } from "../server/status.ts";

export function NodeList({ chosen, choose }: { chosen: string; choose: (name: string) => void }) {
  const filter = useSignal("");
  const relations = nodes.value.filter((node) => node.relation);
  const found = relations.filter((node) => node.label.toLowerCase().includes(filter.value.toLowerCase()));
  return (
    <aside class="node-list" aria-label="Tables and views">
      <label class="search-box">
        <Icon name="search" size={16} />
        <input
          id="find-relation"
          type="search"
          placeholder={`Filter ${relations.length} relations`}
          value={filter.value}
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      </label>
      <VirtualList items={found} height={44} label="Relations" render={(node) => <Entry node={node} chosen={node.id === chosen} choose={choose} />} />
      {!found.length && relations.length > 0 && <p class="quiet">No relation has this in its name.</p>}
    </aside>
  );
}

function Entry({ node, chosen, choose }: { node: Node; chosen: boolean; choose: (name: string) => void }) {
  void pulse.value;
  const rowCount = node.relation?.rows ?? null;
  const rows = flows.get(node.id)?.busiest ?? 0;
  return (
    <a
      href={address("relation", node.id)}
      class={`entry ${kindClass(node.kind)} ${chosen ? "chosen" : ""}`}
      onFocus={() => choose(node.id)}
    >
      <i class={`dot state-${node.state}`} title={node.state} />
      <span class="entry-name">{node.label}</span>
      <span class="entry-rate">{rows > 0 ? rate(rows) : ""}</span>
      <span class="entry-kind">
        {node.kind}
        {rowCount === null ? "" : ` · ${short(rowCount)} rows`}
      </span>
    </a>
  );
}
