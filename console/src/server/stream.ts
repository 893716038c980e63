// A stream of events that comes back: by itself where the connection was lost, and anew where it was refused.

import { readMe } from "./request.ts";

const AGAIN_MILLISECONDS = 2000;

interface Heard {
  message: (data: string) => void;
  /** What the server says by events with names. */
  named?: Record<string, (data: string) => void>;
  live?: (on: boolean) => void;
}

/** Listens until the function that it returns is called. The address is asked for each time that it is opened. */
export function listen(address: () => string, heard: Heard): () => void {
  let source: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let ended = false;
  const open = () => {
    source = new EventSource(address());
    source.onopen = () => heard.live?.(true);
    source.onmessage = (event) => heard.message(event.data as string);
    for (const [name, take] of Object.entries(heard.named ?? {})) {
      source.addEventListener(name, (event) => {
        const data = (event as MessageEvent).data as string | undefined;
        if (!data) return; // the browser's own event of the name "error"
        take(data);
        void readMe(); // it may be that the rights have changed
      });
    }
    source.addEventListener("error", () => {
      heard.live?.(false);
      if (ended || source.readyState !== EventSource.CLOSED) return;
      void readMe(); // it was refused, without a word: perhaps the login has ended, and with it this page
      timer = setTimeout(open, AGAIN_MILLISECONDS);
    });
  };
  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source.close();
  };
}
