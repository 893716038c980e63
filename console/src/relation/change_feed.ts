// The stream of changes of a view, of which the newest are kept.

import { parseExactly } from "../base/exact_json.ts";
import type { ChangeEvent, Row } from "../server/answers.ts";
import { endpoint, type ErrorFields, ofView, ServerError } from "../server/request.ts";

export interface Change {
  epoch: number;
  weight: number;
  row: Row;
}

/** Changes that are kept to scroll through. */
const KEPT = 2000;
/** Changes of one epoch that are kept; of larger epochs the first ones stand for all. */
const OF_ONE_EPOCH = 500;

export class ChangeFeed {
  private readonly stream: EventSource;
  private newest: Change[] = [];
  private seen = 0;
  private skipped = 0;

  constructor(
    name: string,
    since: number,
    private readonly changed: () => void,
    failed: (fault: unknown) => void,
  ) {
    this.stream = new EventSource(endpoint(ofView(name, "changes"), { since }));
    this.stream.onmessage = (message) => this.take(parseExactly(message.data as string) as ChangeEvent);
    const ended = (event: Event) => {
      const data = (event as MessageEvent).data as string | undefined;
      if (!data) return; // the connection is lost; it comes back by itself, from the last epoch that was seen
      this.close();
      failed(new ServerError((JSON.parse(data) as { error: ErrorFields }).error, 0));
    };
    this.stream.addEventListener("error", ended);
    this.stream.addEventListener("fellbehind", ended);
  }

  /** The newest changes, the last one first. */
  snapshot(): { changes: Change[]; skipped: number; seen: number } {
    return { changes: this.newest.slice().reverse(), skipped: this.skipped, seen: this.seen };
  }

  close(): void {
    this.stream.close();
  }

  private take(event: ChangeEvent): void {
    const sample = event.rows.slice(0, OF_ONE_EPOCH);
    this.seen += event.rows.length;
    this.skipped += event.rows.length - sample.length;
    this.newest.push(...sample.map((row, at) => ({ epoch: event.epoch, weight: event.weights[at] ?? 0, row })));
    if (this.newest.length > 2 * KEPT) this.newest = this.newest.slice(-KEPT);
    this.changed();
  }
}
