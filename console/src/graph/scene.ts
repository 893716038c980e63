// The graph on its canvas: what is seen of it, what is under the pointer, and drawing at most once a frame.

import { calm } from "../base/frame.ts";
import type { Node } from "../server/nodes.ts";
import { flows } from "../server/status.ts";
import { drawEdges, drawNodes, type Ink, readInk } from "./draw.ts";
import { HEIGHT, type Placed, type Point, WIDTH } from "./layout.ts";

export interface Edge {
  from: string;
  to: string;
  points: Point[];
  path: Path2D;
}

export interface View {
  x: number;
  y: number;
  zoom: number;
  width: number;
  height: number;
}

const SMALLEST = 0.06;
const LARGEST = 2;
/** Pixels below that the legend covers. */
const LEGEND = 44;
const GLOW_MILLISECONDS = 700;
/** Moving dashes need no more than this. */
const FRAME_MILLISECONDS = 32;

export class Scene {
  nodes = new Map<string, Node>();
  places = new Map<string, Point>();
  edges: Edge[] = [];
  selected = "";
  hovered = "";
  view: View = { x: 0, y: 0, zoom: 1, width: 1, height: 1 };
  private size = { width: 1, height: 1 };
  private ink: Ink = readInk();
  private asked = false;
  private last = 0;
  private moved = false;
  private ended = false;
  private known: { middle: string; edges: Edge[]; names: Set<string> } = { middle: "", edges: [], names: new Set() };
  private readonly pen: CanvasRenderingContext2D;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.pen = canvas.getContext("2d")!;
  }

  /** Takes a new layout; the part that is seen stays, unless nobody has moved it. */
  place(placed: Placed): void {
    this.places = new Map(Object.entries(placed.nodes));
    this.size = { width: placed.width, height: placed.height };
    this.edges = placed.edges.map((edge) => ({ ...edge, path: curve(edge.points) }));
    if (!this.moved) this.fit();
    this.ask();
  }

  show(nodes: Node[]): void {
    this.nodes = new Map(nodes.map((node) => [node.id, node]));
    this.ask();
  }

  resize(): void {
    const box = this.canvas.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    this.view.width = box.width;
    this.view.height = box.height;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    if (!this.moved) this.fit();
    this.ask();
  }

  recolour(): void {
    this.ink = readInk();
    this.ask();
  }

  fit(): void {
    const { width } = this.view;
    const height = Math.max(1, this.view.height - LEGEND);
    const zoom = Math.min(1.1, Math.max(SMALLEST, Math.min(width / this.size.width, height / this.size.height)));
    this.view.zoom = zoom;
    this.view.x = (width - this.size.width * zoom) / 2;
    this.view.y = (height - this.size.height * zoom) / 2;
    this.moved = false;
    this.ask();
  }

  pan(dx: number, dy: number): void {
    this.view.x += dx;
    this.view.y += dy;
    this.moved = true;
    this.ask();
  }

  /** Zooms so that what is at `x`, `y` stays there. */
  zoomAt(factor: number, x = this.view.width / 2, y = this.view.height / 2): void {
    const zoom = Math.min(LARGEST, Math.max(SMALLEST, this.view.zoom * factor));
    const real = zoom / this.view.zoom;
    this.view.x = x - (x - this.view.x) * real;
    this.view.y = y - (y - this.view.y) * real;
    this.view.zoom = zoom;
    this.moved = true;
    this.ask();
  }

  /** Moves what is seen so that a node is in it. */
  reveal(name: string): void {
    const place = this.places.get(name);
    if (!place) return;
    const { zoom, width, height } = this.view;
    const x = place.x * zoom + this.view.x;
    const y = place.y * zoom + this.view.y;
    const inside = x > 0 && y > 0 && x + WIDTH * zoom < width && y + HEIGHT * zoom < height;
    if (!inside) this.pan(width / 2 - x - (WIDTH * zoom) / 2, height / 2 - y - (HEIGHT * zoom) / 2);
    this.ask();
  }

  under(x: number, y: number): string {
    const at = { x: (x - this.view.x) / this.view.zoom, y: (y - this.view.y) / this.view.zoom };
    for (const [name, place] of this.places) {
      if (at.x >= place.x && at.x <= place.x + WIDTH && at.y >= place.y && at.y <= place.y + HEIGHT) return name;
    }
    return "";
  }

  /** The node that an arrow key leads to: what is read, who reads, or the neighbour above or below. */
  neighbour(key: string): string {
    const from = this.places.get(this.selected);
    if (!from) return this.places.keys().next().value ?? "";
    const near = (names: string[]) => nearest(from, names, this.places);
    if (key === "ArrowLeft") return near(this.edges.filter((edge) => edge.to === this.selected).map((edge) => edge.from));
    if (key === "ArrowRight") return near(this.edges.filter((edge) => edge.from === this.selected).map((edge) => edge.to));
    const down = key === "ArrowDown";
    const column = [...this.places].filter(([, at]) => Math.abs(at.x - from.x) < 2 && (down ? at.y > from.y : at.y < from.y));
    return near(column.map(([name]) => name));
  }

  /** Asks for a drawing in the next frame. */
  ask(): void {
    if (this.asked || this.ended) return;
    this.asked = true;
    requestAnimationFrame((now) => {
      this.asked = false;
      if (this.ended) return;
      if (now - this.last >= FRAME_MILLISECONDS || !this.animated(now)) this.draw(now);
      if (this.animated(now)) this.ask();
    });
  }

  end(): void {
    this.ended = true;
  }

  private animated(now: number): boolean {
    if (calm.matches || document.hidden) return false;
    for (const flow of flows.values()) if (flow.busiest > 0.05 || now - flow.changed < GLOW_MILLISECONDS) return true;
    return false;
  }

  private draw(now: number): void {
    this.last = now;
    const ratio = devicePixelRatio || 1;
    const { pen, view } = this;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, view.width, view.height);
    pen.setTransform(view.zoom * ratio, 0, 0, view.zoom * ratio, view.x * ratio, view.y * ratio);
    const near = this.near();
    drawEdges(pen, this, this.ink, near, now);
    drawNodes(pen, this, this.ink, near, now);
  }

  /** The node that is looked at with all that it comes from and all that comes from it; null if none is. */
  private near(): Set<string> | null {
    const middle = this.hovered || this.selected;
    if (!this.places.has(middle)) return null;
    if (this.known.middle !== middle || this.known.edges !== this.edges) {
      const names = [...reached(middle, this.edges, "to", "from"), ...reached(middle, this.edges, "from", "to")];
      this.known = { middle, edges: this.edges, names: new Set(names) };
    }
    return this.known.names;
  }
}

/** All that is reached from a node along edges, or against them. */
function reached(start: string, edges: Edge[], here: "from" | "to", there: "from" | "to"): Set<string> {
  const found = new Set([start]);
  for (const name of found) {
    for (const edge of edges) if (edge[here] === name) found.add(edge[there]);
  }
  return found;
}

/** Curves between points that leave and arrive level. */
function curve(points: Point[]): Path2D {
  const path = new Path2D();
  const first = points[0]!;
  path.moveTo(first.x, first.y);
  for (let at = 1; at < points.length; at++) {
    const from = points[at - 1]!;
    const to = points[at]!;
    const bend = Math.max(24, Math.abs(to.x - from.x) / 2);
    path.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  }
  return path;
}

function nearest(from: Point, names: string[], places: Map<string, Point>): string {
  const distance = (name: string) => {
    const at = places.get(name)!;
    return Math.hypot(at.x - from.x, at.y - from.y);
  };
  return names.filter((name) => places.has(name)).sort((one, other) => distance(one) - distance(other))[0] ?? "";
}
