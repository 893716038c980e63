// An answer of the server that a component shows: its value, its error, and asking again.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Resource<T> {
  value: T | undefined;
  error: unknown;
  loading: boolean;
  again: () => void;
}

/**
 * Asks when the component is shown, when `key` changes, and every `every` milliseconds while the page is visible.
 *
 * One question is on its way at a time: who asks again meanwhile is answered once more after it, so that a slow server
 * is asked less often, and an answer is never thrown away because a newer question was asked.
 */
export function useAnswer<T>(ask: () => Promise<T>, key: string, every = 0): Resource<T> {
  const [shown, setShown] = useState<{ key: string; value?: T; error?: unknown; loading: boolean }>({ key, loading: true });
  const asked = useRef(ask);
  const run = useRef(() => {});
  asked.current = ask;

  useEffect(() => {
    let current = true;
    let busy = false;
    let due = false;
    const ended = (next: (before: typeof shown) => typeof shown) => {
      busy = false;
      if (!current) return;
      setShown(next);
      if (due) run.current();
    };
    run.current = () => {
      due = busy;
      if (busy) return;
      busy = true;
      asked.current().then(
        (value) => ended(() => ({ key, value, loading: false })),
        (error) => ended((before) => ({ key, value: before.key === key ? before.value : undefined, error, loading: false })),
      );
    };
    run.current();
    const timer = every ? setInterval(() => document.hidden || run.current(), every) : undefined;
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [key, every]);

  const again = useCallback(() => run.current(), []);
  const mine = shown.key === key;
  return { value: mine ? shown.value : undefined, error: mine ? shown.error : undefined, loading: !mine || shown.loading, again };
}
