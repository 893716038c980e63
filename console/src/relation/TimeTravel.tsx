// A slider over the epochs: the page shows rows as they were at the one that is chosen.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count } from "../base/format.ts";
import { Icon } from "../parts/Icon.tsx";
import { epoch, status } from "../server/status.ts";

const SETTLE_MILLISECONDS = 120;

export function TimeTravel({ at, choose }: { at: number | null; choose: (epoch: number | null) => void }) {
  const newest = Math.max(epoch.value, status.value?.epoch ?? 0);
  const first = status.value?.oldest ?? 0;
  const moving = useSignal<number | null>(null);
  const value = moving.value ?? at ?? newest;

  useEffect(() => {
    if (moving.value === null) return undefined;
    const wanted = moving.value;
    const timer = setTimeout(() => {
      moving.value = null;
      choose(wanted);
    }, SETTLE_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [moving.value]);

  return (
    <div class={`time-travel ${at === null ? "" : "then"}`}>
      <Icon name="clock" />
      <label>
        <span class="only-read">Epoch</span>
        <input
          type="range"
          min={first}
          max={newest}
          value={value}
          aria-valuetext={`epoch ${value}`}
          onInput={(event) => (moving.value = Number(event.currentTarget.value))}
        />
      </label>
      <output>{at === null && moving.value === null ? "now" : `epoch ${count(value)}`}</output>
      <button type="button" disabled={at === null} onClick={() => choose(null)}>
        Back to now
      </button>
    </div>
  );
}
