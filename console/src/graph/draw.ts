// Nodes and edges on the canvas. Far away nodes are tiles in the colour of their state; near by they say more.

import { rate, short } from "../base/format.ts";
import { calm } from "../base/frame.ts";
import { colour } from "../base/theme.ts";
import { kindClass } from "../parts/Badges.tsx";
import type { Kind, State } from "../server/answers.ts";
import type { Node } from "../server/nodes.ts";
import { flows } from "../server/status.ts";
import { HEIGHT, type Point, WIDTH } from "./layout.ts";
import type { Edge, Scene, View } from "./scene.ts";

const KINDS: Kind[] = ["table", "stream", "view", "source", "feed", "lake table", "published"];
const STATES: State[] = ["fresh", "behind", "building", "quarantined", "stopped", "unknown"];
const TILE_ZOOM = 0.34;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
/** So many edges may have moving dashes at once; the others that flow are plain lines. */
const MOVING_EDGES = 220;

export interface Ink {
  text: string;
  muted: string;
  surface: string;
  line: string;
  accent: string;
  kinds: Record<Kind, string>;
  states: Record<State, string>;
}

export function readInk(): Ink {
  return {
    text: colour("--text"),
    muted: colour("--muted"),
    surface: colour("--surface"),
    line: colour("--line-strong"),
    accent: colour("--accent"),
    kinds: Object.fromEntries(KINDS.map((kind) => [kind, colour(`--${kindClass(kind)}`)])) as Record<Kind, string>,
    states: Object.fromEntries(STATES.map((state) => [state, colour(`--state-${state}`)])) as Record<State, string>,
  };
}

export function drawEdges(pen: CanvasRenderingContext2D, scene: Scene, ink: Ink, near: Set<string> | null, now: number): void {
  let moving = 0;
  const thin = 1 / Math.max(0.5, scene.view.zoom);
  pen.lineCap = "round";
  for (const edge of scene.edges) {
    if (!seenEdge(edge, scene.view)) continue;
    // Beside a writer of another process nothing is known of tables: what their readers take in stands for them.
    const rows = flows.get(edge.from)?.out || flows.get(edge.to)?.in || 0;
    const active = near === null || (near.has(edge.from) && near.has(edge.to));
    pen.globalAlpha = active ? 1 : 0.15;
    pen.lineWidth = thin * (active && near ? 1.8 : 1.2);
    pen.strokeStyle = active && near ? ink.accent : ink.line;
    pen.stroke(edge.path);
    if (rows <= 0.05 || !active) continue;
    pen.strokeStyle = ink.accent;
    pen.lineWidth = thin * Math.min(5, 1.6 + Math.log10(1 + rows) * 0.8);
    if (calm.matches || ++moving > MOVING_EDGES) {
      pen.globalAlpha = 0.5;
    } else {
      const step = Math.max(10, 26 - Math.log10(1 + rows) * 4);
      pen.setLineDash([1, step]);
      pen.lineDashOffset = -((now / 1000) * (26 + Math.log10(1 + rows) * 24)) % (step + 1);
    }
    pen.stroke(edge.path);
    pen.setLineDash([]);
  }
  pen.globalAlpha = 1;
}

export function drawNodes(pen: CanvasRenderingContext2D, scene: Scene, ink: Ink, near: Set<string> | null, now: number): void {
  pen.textBaseline = "alphabetic";
  for (const [name, at] of scene.places) {
    const node = scene.nodes.get(name);
    if (!node || !seen(at, scene.view)) continue;
    pen.globalAlpha = near === null || near.has(name) ? 1 : 0.3;
    if (scene.view.zoom < TILE_ZOOM) drawTile(pen, node, at, ink, scene, now);
    else drawCard(pen, node, at, ink, scene, now);
  }
  pen.globalAlpha = 1;
}

function seen(at: Point, view: View): boolean {
  const x = at.x * view.zoom + view.x;
  const y = at.y * view.zoom + view.y;
  return x < view.width && y < view.height && x + WIDTH * view.zoom > 0 && y + HEIGHT * view.zoom > 0;
}

function seenEdge(edge: Edge, view: View): boolean {
  const first = edge.points[0]!;
  const last = edge.points.at(-1)!;
  const left = Math.min(first.x, last.x) * view.zoom + view.x;
  const right = Math.max(first.x, last.x) * view.zoom + view.x;
  const top = Math.min(first.y, last.y) * view.zoom + view.y;
  const bottom = Math.max(first.y, last.y) * view.zoom + view.y;
  return left < view.width && right > 0 && top < view.height + 200 && bottom > -200;
}

function drawTile(pen: CanvasRenderingContext2D, node: Node, at: Point, ink: Ink, scene: Scene, now: number): void {
  box(pen, at, 10);
  pen.fillStyle = ink.surface;
  pen.fill();
  const quiet = node.state === "fresh";
  const share = pen.globalAlpha;
  pen.globalAlpha = share * (quiet ? 0.22 + 0.6 * glow(node.id, now) : 0.75);
  pen.fillStyle = quiet ? ink.kinds[node.kind] : ink.states[node.state];
  pen.fill();
  pen.globalAlpha = share;
  outline(pen, node, ink, scene, now, 2.5);
  if (scene.view.zoom > 0.16) label(pen, node.label, at.x + 14, at.y + 40, WIDTH - 28, `600 26px ${FONT}`, ink.text);
}

function drawCard(pen: CanvasRenderingContext2D, node: Node, at: Point, ink: Ink, scene: Scene, now: number): void {
  box(pen, at, 10);
  pen.fillStyle = ink.surface;
  pen.fill();
  outline(pen, node, ink, scene, now, 1);
  pen.fillStyle = ink.kinds[node.kind];
  pen.beginPath();
  pen.roundRect(at.x, at.y + 12, 4, HEIGHT - 24, [0, 3, 3, 0]);
  pen.fill();
  label(pen, node.label, at.x + 16, at.y + 26, WIDTH - 46, `600 14px ${FONT}`, ink.text);
  pen.fillStyle = ink.states[node.state];
  pen.beginPath();
  pen.arc(at.x + WIDTH - 17, at.y + 21.5, 4.5, 0, Math.PI * 2);
  pen.fill();
  label(pen, facts(node), at.x + 16, at.y + 46, 118, `12px ${FONT}`, ink.muted);
  const rows = flows.get(node.id)?.busiest ?? 0;
  if (rows > 0) {
    pen.textAlign = "right";
    label(pen, rate(rows), at.x + WIDTH - 13, at.y + 46, 70, `600 12px ${FONT}`, ink.accent);
    pen.textAlign = "left";
  }
}

function facts(node: Node): string {
  const rows = node.relation?.rows ?? null;
  if (node.state === "behind" && node.relation) return `${short(node.relation.staleness.epochs)} behind`;
  if (node.state === "unknown") return node.kind;
  if (node.state !== "fresh") return node.state;
  return rows === null ? node.kind : `${short(rows)} ${rows === 1 ? "row" : "rows"}`;
}

function box(pen: CanvasRenderingContext2D, at: Point, radius: number): void {
  pen.beginPath();
  pen.roundRect(at.x, at.y, WIDTH, HEIGHT, radius);
}

/** Outlines the path of a node: plain, selected, or lit because it has just changed. */
function outline(pen: CanvasRenderingContext2D, node: Node, ink: Ink, scene: Scene, now: number, width: number): void {
  const looked = node.id === scene.selected || node.id === scene.hovered;
  const lit = glow(node.id, now);
  pen.lineWidth = looked ? width * 2 : width;
  pen.strokeStyle = looked ? ink.accent : ink.line;
  pen.stroke();
  if (lit <= 0) return;
  const share = pen.globalAlpha;
  pen.globalAlpha = share * lit;
  pen.strokeStyle = ink.accent;
  pen.lineWidth = width * 1.8;
  pen.stroke();
  pen.globalAlpha = share;
}

/** 1 for a node that has changed this moment, falling to 0. */
function glow(name: string, now: number): number {
  const changed = flows.get(name)?.changed ?? 0;
  return changed && !calm.matches ? Math.max(0, 1 - (now - changed) / 700) : 0;
}

const cut = new Map<string, string>();

/** Text that ends in an ellipsis where it does not fit; what fits is remembered. */
function label(pen: CanvasRenderingContext2D, text: string, x: number, y: number, room: number, font: string, fill: string): void {
  pen.font = font;
  pen.fillStyle = fill;
  const key = `${font}\n${room}\n${text}`;
  let fits = cut.get(key);
  if (fits === undefined) {
    fits = text;
    while (fits.length > 1 && pen.measureText(fits).width > room) fits = `${fits.slice(0, fits.endsWith("…") ? -2 : -1)}…`;
    if (cut.size > 5000) cut.clear();
    cut.set(key, fits);
  }
  pen.fillText(fits, x, y);
}
