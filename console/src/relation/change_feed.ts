// The stream of changes of a view, of which the newest are kept.

import { parseExactly } from "../base/exact_json.ts";
import type { ChangeEvent, Row } from "../server/answers.ts";
import { me } from "../server/me.ts";
import { endpoint, type ErrorFields, ofView, ServerError } from "../server/request.ts";
import { listen } from "../server/stream.ts";

export interface Change {
  epoch: number;
  weight: number;
  row: Row;
}

/** Changes that are kept to scroll through. */
const KEPT = 2000;
/** Changes of one epoch that are kept; of larger epochs the first ones stand for all. */
const OF_ONE_EPOCH = 500;

/** The epochs up to which users had heard views when their logins ended. */
const heard = new Map<string, number>();

/** The epoch after which a view is heard: the last one, or where a login has ended in between. */
export function heardUpTo(name: string, epoch: number): number {
  return heard.get(listenerOf(name)) ?? epoch;
}

function listenerOf(name: string): string {
  return JSON.stringify([me.value?.user, name]);
}

export class ChangeFeed {
  private readonly end: () => void;
  private readonly listener: string;
  private newest: Change[] = [];
  private seen = 0;
  private skipped = 0;

  constructor(
    name: string,
    private epoch: number,
    private readonly changed: () => void,
    failed: (fault: unknown) => void,
  ) {
    this.listener = listenerOf(name);
    heard.delete(this.listener);
    const failure = (data: string) => {
      this.end();
      failed(new ServerError((JSON.parse(data) as { error: ErrorFields }).error, 0));
    };
    this.end = listen(() => endpoint(ofView(name, "changes"), { since: this.epoch }), {
      message: (data) => this.take(parseExactly(data) as ChangeEvent),
      named: { error: failure, fellbehind: failure },
    });
  }

  /** The newest changes, the last one first. */
  snapshot(): { changes: Change[]; skipped: number; seen: number } {
    return { changes: this.newest.slice().reverse(), skipped: this.skipped, seen: this.seen };
  }

  close(): void {
    this.end();
    if (me.value?.login_needed) heard.set(this.listener, this.epoch);
  }

  private take(event: ChangeEvent): void {
    this.epoch = event.epoch;
    const sample = event.rows.slice(0, OF_ONE_EPOCH);
    this.seen += event.rows.length;
    this.skipped += event.rows.length - sample.length;
    this.newest.push(...sample.map((row, at) => ({ epoch: event.epoch, weight: event.weights[at] ?? 0, row })));
    if (this.newest.length > 2 * KEPT) this.newest = this.newest.slice(-KEPT);
    this.changed();
  }
}
