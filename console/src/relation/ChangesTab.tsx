// The changes of a view as they come: the newest first, drawn once a frame, with a sample where they are too many.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { count, rate } from "../base/format.ts";
import { oncePerFrame } from "../base/frame.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { Icon } from "../parts/Icon.tsx";
import { VirtualRows } from "../parts/VirtualRows.tsx";
import type { Column, RowsAnswer } from "../server/answers.ts";
import { get, ofView } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { flowOf, pulse } from "../server/status.ts";
import { type Change, ChangeFeed, heardUpTo } from "./change_feed.ts";

export function ChangesTab({ name }: { name: string }) {
  const head = useAnswer(() => get<RowsAnswer>(ofView(name), { limit: 0 }), name);
  const since = useMemo(() => head.value && heardUpTo(name, head.value.epoch), [name, head.value]);
  if (head.error !== undefined) return <ErrorBox error={head.error} again={head.again} />;
  return head.value ? <Changes name={name} columns={head.value.columns} since={since!} /> : null;
}

function Changes({ name, columns, since }: { name: string; columns: Column[]; since: number }) {
  const paused = useSignal(false);
  const shown = useSignal<{ changes: Change[]; skipped: number; seen: number }>({ changes: [], skipped: 0, seen: 0 });
  const error = useSignal<unknown>(undefined);
  const feed = useRef<ChangeFeed | null>(null);

  useEffect(() => {
    const draw = oncePerFrame(() => {
      if (feed.current && !paused.value) shown.value = feed.current.snapshot();
    });
    feed.current = new ChangeFeed(name, since, draw, (fault) => (error.value = fault));
    return () => feed.current?.close();
  }, [name]);

  const { changes, skipped, seen } = shown.value;
  const pause = () => {
    paused.value = !paused.value;
    if (!paused.value && feed.current) shown.value = feed.current.snapshot();
  };
  return (
    <div class="changes-tab">
      <div class="rows-tools">
        <button type="button" aria-pressed={paused.value} onClick={pause}>
          <Icon name={paused.value ? "play" : "pause"} size={15} />
          {paused.value ? "Go on" : "Hold"}
        </button>
        <span class="quiet">
          {count(seen)} changes since epoch {count(since)}
          {skipped > 0 && `, ${count(skipped)} of them not listed`}
        </span>
        <Rate name={name} />
      </div>
      {error.value !== undefined && <ErrorBox error={error.value} />}
      <VirtualRows
        columns={columns}
        rows={changes.map((one) => one.row)}
        label={`Changes of ${name}`}
        leadTitle="epoch"
        lead={(index) => <Lead change={changes[index]!} />}
        rowClass={(index) => (changes[index]!.weight > 0 ? "came" : "left")}
      />
      {!seen && <p class="quiet waiting">Waiting for the next change…</p>}
    </div>
  );
}

function Lead({ change }: { change: Change }) {
  const { weight } = change;
  return (
    <>
      <b class="weight">{weight > 0 ? `+${weight}` : `−${-weight}`}</b>
      <small>{change.epoch}</small>
    </>
  );
}

function Rate({ name }: { name: string }) {
  void pulse.value;
  return <b>{rate(flowOf(name).out)}</b>;
}
