// The first page: the graph of the warehouse, live, with what is known of the node that is chosen.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { address, go } from "../base/router.ts";
import { theme } from "../base/theme.ts";
import { kindClass } from "../parts/Badges.tsx";
import { Icon } from "../parts/Icon.tsx";
import { refusal } from "../server/me.ts";
import type { Node } from "../server/nodes.ts";
import { nodes, nodesById, pulse, status } from "../server/status.ts";
import { Inspector } from "./Inspector.tsx";
import type { Placed } from "./layout.ts";
import { NodeList } from "./NodeList.tsx";
import { Scene } from "./scene.ts";
import { handlePointer } from "./pointer.ts";

export function GraphPage() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<Scene | null>(null);
  const chosen = useSignal("");
  const shape = useMemo(() => shapeOf(nodes.value), [nodes.value]);

  const choose = (name: string) => {
    chosen.value = name;
    if (!scene.current) return;
    scene.current.selected = name;
    if (name) scene.current.reveal(name);
    else scene.current.ask();
  };

  useEffect(() => {
    const drawn = new Scene(canvas.current!);
    scene.current = drawn;
    const sized = new ResizeObserver(() => drawn.resize());
    sized.observe(canvas.current!);
    const ends = [
      pulse.subscribe(() => drawn.ask()),
      theme.subscribe(() => requestAnimationFrame(() => drawn.recolour())),
      nodes.subscribe((all) => drawn.show(all)),
      handlePointer(canvas.current!, drawn, { choose, open: (name) => openNode(name) }),
    ];
    return () => {
      drawn.end();
      sized.disconnect();
      for (const end of ends) end();
    };
  }, []);

  useEffect(() => {
    if (!nodes.value.length) return undefined;
    const worker = new Worker(new URL("assets/layout.js", document.baseURI), { type: "module" });
    worker.onmessage = (message: MessageEvent<Placed>) => {
      scene.current?.place(message.data);
      worker.terminate();
    };
    worker.postMessage({
      names: nodes.value.map((node) => node.id),
      edges: nodes.value.flatMap((node) => node.reads.map((from) => [from, node.id])),
    });
    return () => worker.terminate();
  }, [shape]);

  const key = (event: KeyboardEvent) => {
    const drawn = scene.current!;
    if (event.key.startsWith("Arrow")) choose(drawn.neighbour(event.key) || chosen.value);
    else if (event.key === "Enter" && chosen.value) openNode(chosen.value);
    else if (event.key === "Escape") choose("");
    else if (event.key === "+" || event.key === "=") drawn.zoomAt(1.25);
    else if (event.key === "-") drawn.zoomAt(0.8);
    else if (event.key === "0") drawn.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const node = nodesById.value.get(chosen.value);
  return (
    <div class="graph-page">
      <NodeList chosen={chosen.value} choose={choose} />
      <div class="graph-stage">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label="Graph of tables and views. Arrow keys move between nodes, Enter opens one."
          aria-describedby="graph-chosen"
          onKeyDown={key}
        />
        <p id="graph-chosen" class="only-read" aria-live="polite">
          {node ? `${node.kind} ${node.label}, ${node.state}` : ""}
        </p>
        <div class="graph-tools">
          <button type="button" aria-label="Zoom in" onClick={() => scene.current?.zoomAt(1.25)}>
            <Icon name="plus" />
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => scene.current?.zoomAt(0.8)}>
            <Icon name="minus" />
          </button>
          <button type="button" aria-label="Show all" onClick={() => scene.current?.fit()}>
            <Icon name="fit" />
          </button>
        </div>
        <Legend all={nodes.value} />
        {status.value && !nodes.value.length && <Nothing />}
      </div>
      {node && <Inspector node={node} close={() => choose("")} />}
    </div>
  );
}

/** Tables and views have a page of their own; all else is on the page of sources. */
function openNode(id: string): void {
  const node = nodesById.value.get(id);
  if (node?.relation) go("relation", id);
  else if (node) go("sources");
}

/** Changes when a node or an edge comes or goes, and only then. */
function shapeOf(all: Node[]): string {
  return JSON.stringify(all.map((node) => [node.id, node.reads]));
}

function Legend({ all }: { all: Node[] }) {
  const kinds = [...new Set(all.map((node) => node.kind))];
  return (
    <ul class="legend" aria-label="Kinds of nodes">
      {kinds.map((kind) => (
        <li key={kind} class={`kind ${kindClass(kind)}`}>
          <i class="square" />
          {kind}
        </li>
      ))}
    </ul>
  );
}

function Nothing() {
  return (
    <div class="nothing">
      <h2>Nothing here yet</h2>
      <p hidden={refusal("owner") !== ""}>
        Create a table and a view in the <a href={address("sql")}>SQL editor</a>, and watch them here.
      </p>
    </div>
  );
}
