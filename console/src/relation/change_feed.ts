// The stream of changes of a view, of which the newest are kept.

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
    this.stream.onmessage = (message) => this.take(JSON.parse(message.data as string) as ChangeEvent);
    this.stream.addEventListener("error", (event) => {
      const data = (event as MessageEvent).data as string | undefined;
      if (!data) return;
      this.close();
      failed(new ServerError((JSON.parse(data) as { error: ErrorFields }).error, 0));
    });
  }

  /** The newest changes, the last one first. */
  snapshot(): { changes: Change[]; skipped: number; seen: number } {
    return { changes: this.newest.slice().reverse(), skipped: this.skipped, seen: this.seen };
  }

  close(): void {
    this.stream.close();
  }

  private take(event: ChangeEvent): void {
    const sample = event.changes.slice(0, OF_ONE_EPOCH);
    this.seen += event.changes.length;
    this.skipped += event.changes.length - sample.length;
    this.newest.push(...sample.map(([weight, row]) => ({ epoch: event.epoch, weight, row })));
    if (this.newest.length > 2 * KEPT) this.newest = this.newest.slice(-KEPT);
    this.changed();
  }
}
