// An answer of the server that a component shows: its value, its error, and asking again.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Resource<T> {
  value: T | undefined;
  error: unknown;
  loading: boolean;
  again: () => void;
}

/** Asks when the component is shown, when `key` changes, and every `every` milliseconds while the page is visible. */
export function useAnswer<T>(ask: () => Promise<T>, key: string, every = 0): Resource<T> {
  const [shown, setShown] = useState<{ key: string; value?: T; error?: unknown; loading: boolean }>({ key, loading: true });
  const [turn, setTurn] = useState(0);
  const asked = useRef(ask);
  asked.current = ask;

  useEffect(() => {
    let current = true;
    const run = () => {
      asked.current().then(
        (value) => current && setShown({ key, value, loading: false }),
        (error) => current && setShown((before) => ({ key, value: kept(before, key), error, loading: false })),
      );
    };
    run();
    const timer = every ? setInterval(() => document.hidden || run(), every) : undefined;
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [key, every, turn]);

  const again = useCallback(() => setTurn((before) => before + 1), []);
  const mine = shown.key === key;
  return { value: mine ? shown.value : undefined, error: mine ? shown.error : undefined, loading: !mine || shown.loading, again };
}

function kept<T>(before: { key: string; value?: T }, key: string): T | undefined {
  return before.key === key ? before.value : undefined;
}
