// Where the nodes of the graph stand: in ranks from left to right, crowded ranks in several columns.

import { Graph, layout as dagre } from "@dagrejs/dagre";

export const WIDTH = 212;
export const HEIGHT = 62;
const GAP_X = 84;
const GAP_Y = 22;
const COLUMN_GAP = 28;
/** Ranks of more nodes than this are cut into columns, so that five hundred views do not make a tower. */
const TALLEST = 26;

export interface Point {
  x: number;
  y: number;
}

export interface Placed {
  nodes: Record<string, Point>;
  edges: { from: string; to: string; points: Point[] }[];
  width: number;
  height: number;
}

export interface Wanted {
  names: string[];
  edges: [from: string, to: string][];
}

export function place(wanted: Wanted): Placed {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: GAP_Y, ranksep: GAP_X, marginx: 24, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  wanted.names.forEach((name, at) => graph.setNode(String(at), { label: name, width: WIDTH, height: HEIGHT }));
  const indexOf = new Map(wanted.names.map((name, at) => [name, String(at)]));
  const edges = wanted.edges.filter(([from, to]) => indexOf.has(from) && indexOf.has(to) && from !== to);
  for (const [from, to] of edges) graph.setEdge(indexOf.get(from)!, indexOf.get(to)!);
  dagre(graph);

  const points = wanted.names.map((_, at) => {
    const node = graph.node(String(at)) as Point;
    return { x: node.x - WIDTH / 2, y: node.y - HEIGHT / 2 };
  });
  const wrapped = wrap(points);
  const nodes = Object.fromEntries(wanted.names.map((name, at) => [name, points[at]!]));
  return {
    nodes,
    edges: edges.map(([from, to]) => {
      const { points: passed } = graph.edge(indexOf.get(from)!, indexOf.get(to)!) as { points: Point[] };
      return { from, to, points: [rightOf(nodes[from]!), ...(wrapped ? [] : beside(passed)), leftOf(nodes[to]!)] };
    }),
    width: Math.max(0, ...points.map((one) => one.x)) + WIDTH + 24,
    height: Math.max(0, ...points.map((one) => one.y)) + HEIGHT + 24,
  };
}

/** Points at which an edge passes the nodes of the ranks between; dagre has one between ranks before each of them. */
function beside(passed: Point[]): Point[] {
  return passed
    .slice(1, -1)
    .filter((_, at) => at % 2 === 1)
    .flatMap(({ x, y }) => [
      { x: x - WIDTH / 2, y },
      { x: x + WIDTH / 2, y },
    ]);
}

function rightOf(point: Point): Point {
  return { x: point.x + WIDTH, y: point.y + HEIGHT / 2 };
}

function leftOf(point: Point): Point {
  return { x: point.x, y: point.y + HEIGHT / 2 };
}

/** Cuts ranks that are too tall into columns, in place; true if there was one. */
function wrap(points: Point[]): boolean {
  const ranks = new Map<number, Point[]>();
  for (const point of points) {
    const rank = Math.round(point.x);
    ranks.set(rank, [...(ranks.get(rank) ?? []), point]);
  }
  if (![...ranks.values()].some((rank) => rank.length > TALLEST)) return false;
  let x = 24;
  for (const at of [...ranks.keys()].sort((one, other) => one - other)) {
    const rank = ranks.get(at)!.sort((one, other) => one.y - other.y);
    const columns = Math.ceil(rank.length / TALLEST);
    const tall = Math.ceil(rank.length / columns);
    rank.forEach((point, index) => {
      const column = Math.floor(index / tall);
      const height = Math.min(tall, rank.length - column * tall);
      point.x = x + column * (WIDTH + COLUMN_GAP);
      point.y = 24 + ((index % tall) + (TALLEST - height) / 2) * (HEIGHT + GAP_Y);
    });
    x += columns * (WIDTH + COLUMN_GAP) - COLUMN_GAP + GAP_X * 1.6;
  }
  return true;
}
