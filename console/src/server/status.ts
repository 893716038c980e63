// What every page knows: the nodes of the warehouse, read now and then, and their activity, as a stream.

import { computed, signal } from "@preact/signals";
import { oncePerFrame } from "../base/frame.ts";
import type { Status, StatusEvent } from "./answers.ts";
import { readGranted } from "./granted.ts";
import { readsEverything } from "./me.ts";
import { nodesOf } from "./nodes.ts";
import { endpoint, get } from "./request.ts";
import { listen } from "./stream.ts";

export const HISTORY = 90;
const READ_MILLISECONDS = 2000;
const FADE_SECONDS = 1.2;
const SAMPLE_MILLISECONDS = 500;

/** Rows a second of a node, smoothed, with samples for its sparkline, and when it last changed. */
export class Flow {
  in = 0;
  out = 0;
  ms = 0;
  epoch = 0;
  changed = 0;
  readonly samples = new Float32Array(HISTORY);

  take(rowsIn: number, rowsOut: number, ms: number, seconds: number): void {
    const part = 1 - Math.exp(-seconds / FADE_SECONDS);
    this.in += (rowsIn / seconds - this.in) * part;
    this.out += (rowsOut / seconds - this.out) * part;
    if (ms) this.ms += (ms - this.ms) * 0.3;
    if (this.in < 0.01) this.in = 0;
    if (this.out < 0.01) this.out = 0;
  }

  get busiest(): number {
    return Math.max(this.in, this.out);
  }

  sample(): void {
    this.samples.copyWithin(0, 1);
    this.samples[HISTORY - 1] = this.busiest;
  }
}

export const status = signal<Status | null>(null);
export const failure = signal<unknown>(null);
export const connected = signal(false);
/** Grows by one, at most once a frame, when flows have changed. */
export const pulse = signal(0);

export const flows = new Map<string, Flow>();
export const total = new Flow();

export const nodes = computed(() => (status.value ? nodesOf(status.value) : []));
export const nodesById = computed(() => new Map(nodes.value.map((node) => [node.id, node])));

const changed = oncePerFrame(() => {
  pulse.value += 1;
});

export function flowOf(name: string): Flow {
  let flow = flows.get(name);
  if (!flow) flows.set(name, (flow = new Flow()));
  return flow;
}

let reading = false;
/** Another one for each time that it is followed: what somebody else was told is not shown. */
let follower: symbol | null = null;

export async function readStatus(): Promise<void> {
  if (reading) return;
  reading = true;
  const asked = follower;
  try {
    const found = await (readsEverything() ? get<Status>("status") : readGranted());
    if (asked === follower) status.value = found;
    failure.value = null;
  } catch (fault) {
    failure.value = asked === follower ? fault : null;
  } finally {
    reading = false;
    if (follower && asked !== follower) void readStatus();
  }
}

/** Reads and listens until the function that it returns is called: then nothing of what was read is left. */
export function follow(): () => void {
  follower = Symbol();
  void readStatus();
  const timer = setInterval(sample, SAMPLE_MILLISECONDS);
  const end = readsEverything() ? followAll() : () => {};
  return () => {
    clearInterval(timer);
    end();
    follower = null;
    status.value = failure.value = null;
    connected.value = false;
    epoch.value = 0;
    flows.clear();
    Object.assign(total, new Flow());
  };
}

function followAll(): () => void {
  const reader = setInterval(() => document.hidden || void readStatus(), READ_MILLISECONDS);
  const seen = () => document.hidden || void readStatus();
  document.addEventListener("visibilitychange", seen);
  let before = performance.now();
  const end = listen(() => endpoint("status/stream"), {
    live: (on) => (connected.value = on),
    message: (data) => {
      const now = performance.now();
      take(JSON.parse(data) as StatusEvent, Math.max(0.1, (now - before) / 1000), now);
      before = now;
    },
  });
  return () => {
    end();
    clearInterval(reader);
    document.removeEventListener("visibilitychange", seen);
  };
}

export const epoch = signal(0);

/** Adds what happened in the last `seconds` to the flows. */
export function take(event: StatusEvent, seconds: number, now: number): void {
  let rows = 0;
  for (const [name, flow] of flows) if (!event.nodes[name]) flow.take(0, 0, 0, seconds);
  for (const [name, one] of Object.entries(event.nodes)) {
    const flow = flowOf(name);
    flow.take(one.rows_in, one.rows_out, one.ms / Math.max(1, one.refreshes), seconds);
    if (one.rows_in || one.rows_out) flow.changed = now;
    flow.epoch = Math.max(flow.epoch, one.epoch);
    rows += one.rows_in + one.rows_out;
  }
  total.take(rows, 0, 0, seconds);
  epoch.value = Math.max(epoch.value, event.epoch);
  changed();
}

let heard = 0;

/** Without events for a while, rates fall by themselves. */
function sample(): void {
  const quiet = pulse.peek() === heard;
  heard = pulse.peek();
  if (document.hidden) return;
  for (const flow of [total, ...flows.values()]) {
    if (quiet) flow.take(0, 0, 0, SAMPLE_MILLISECONDS / 1000);
    flow.sample();
  }
  if (quiet && total.in > 0) changed();
}
