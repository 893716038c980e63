// The program of a view as a picture: tables, maps and stages, and how changes go from one to the other.

import { useMemo } from "preact/hooks";
import { HEIGHT, place, type Point, WIDTH } from "../graph/layout.ts";
import type { Arrow, Box, ExplainAnswer } from "./plan.ts";

const LETTERS = 26;
const NOTE_LETTERS = 31;

export function PlanPicture({ graph }: { graph: ExplainAnswer["graph"] }) {
  const placed = useMemo(
    () =>
      place({
        names: graph.boxes.map((box) => box.name),
        edges: graph.arrows.map((arrow) => [arrow.source, arrow.target]),
      }),
    [graph],
  );
  if (!graph.boxes.length) return null;
  return (
    <figure class="plan-picture">
      <svg viewBox={`0 0 ${placed.width} ${placed.height}`} width={placed.width} height={placed.height} role="img" aria-label="The program of the view">
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path class="tip" d="M0 0L8 4L0 8z" />
          </marker>
        </defs>
        {graph.arrows.map((arrow) => (
          <Line key={`${arrow.source} ${arrow.target} ${arrow.looked_up}`} arrow={arrow} places={placed.nodes} />
        ))}
        {graph.boxes.map((box) => (
          <Node key={box.name} box={box} at={placed.nodes[box.name]!} />
        ))}
      </svg>
      <figcaption>
        <span class="line-solid" /> a change of the left changes the right <span class="line-dashed" /> looked up by changes of others
      </figcaption>
    </figure>
  );
}

function Node({ box, at }: { box: Box; at: Point }) {
  const note = `${box.kind} ${box.note}`.trim();
  return (
    <g class={`plan-box plan-${box.kind}`} transform={`translate(${at.x} ${at.y})`}>
      <title>{`${box.name}\n${note}`}</title>
      <rect width={WIDTH} height={HEIGHT} rx={box.kind === "table" ? 4 : 12} />
      <text x={WIDTH / 2} y={28}>
        {cut(box.name, LETTERS)}
      </text>
      <text class="note" x={WIDTH / 2} y={46}>
        {cut(note, NOTE_LETTERS)}
      </text>
    </g>
  );
}

function Line({ arrow, places }: { arrow: Arrow; places: Record<string, Point> }) {
  const from = places[arrow.source];
  const to = places[arrow.target];
  if (!from || !to) return null;
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const bend = Math.max(36, Math.abs(x2 - x1) / 2);
  const curve = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
  return <path class={`plan-arrow ${arrow.looked_up ? "looked-up" : ""}`} d={curve} marker-end="url(#tip)" />;
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
