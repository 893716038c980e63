// The nodes of the graph: relations under their names, and what brings changes in and takes them out.

import type { Kind, Relation, State, Status } from "./answers.ts";

export interface Node {
  /** The name of a relation; of others their kind comes before it, so that a feed may be called like its table. */
  id: string;
  label: string;
  kind: Kind;
  reads: string[];
  state: State;
  /** What else is known of a table or view. */
  relation: Relation | null;
  about: string;
}

export function nodesOf(status: Status): Node[] {
  const readers = new Map(status.feeds.map((feed) => [feed.table, feedId(feed.name)]));
  return [
    ...status.sources.map((one) => outside(sourceId(one.name), one.name, "source", [], `${one.kind}, ${one.sync}`)),
    ...status.feeds.map((one) => outside(feedId(one.name), one.name, "feed", [], `${one.folder}, ${one.sync}`)),
    ...[...status.tables, ...status.views].map((one) => inside(one, status, readers.get(one.name))),
    ...Object.entries(status.published).map(([view, place]) =>
      outside(`published ${view}`, place.split("/").at(-1) || view, "published", [view], place),
    ),
  ];
}

export function sourceId(name: string): string {
  return `source ${name}`;
}

function feedId(name: string): string {
  return `feed ${name}`;
}

function inside(relation: Relation, status: Status, feed: string | undefined): Node {
  const sources = status.sources.filter((one) => relation.reads.some((read) => read.startsWith(`${one.name}.`)));
  const reads = relation.reads.filter((read) => !read.includes("."));
  const held = status.views.find((view) => `${view.name}_errors` === relation.name);
  const state = status.troubles[relation.name] && relation.state === "fresh" ? "stopped" : relation.state;
  return {
    id: relation.name,
    label: relation.name,
    kind: relation.kind,
    // Rows that a view holds back are in a table that is filled by it.
    reads: [...reads, ...sources.map((one) => sourceId(one.name)), ...(feed ? [feed] : []), ...(held ? [held.name] : [])],
    state,
    relation,
    about: relation.note,
  };
}

function outside(id: string, label: string, kind: Kind, reads: string[], about: string): Node {
  return { id, label, kind, reads, state: "fresh", relation: null, about };
}
