// What is in sight of a box that scrolls, told once a frame at most.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { oncePerFrame } from "../base/frame.ts";

export interface Seen {
  top: number;
  height: number;
}

/** A box, and what is in sight of it. */
export function useScrolled(): [RefObject<HTMLDivElement | null>, Seen] {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState<Seen>({ top: 0, height: 800 });
  useEffect(() => {
    const element = box.current!;
    const look = oncePerFrame(() => setSeen({ top: element.scrollTop, height: element.clientHeight }));
    const sized = new ResizeObserver(look);
    element.addEventListener("scroll", look, { passive: true });
    sized.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      sized.disconnect();
    };
  }, []);
  return [box, seen];
}

/** The first of `count` rows of one height that are drawn, and the one after the last: those in sight, and some more. */
export function rowsInSight(seen: Seen, height: number, count: number, more: number): [first: number, end: number] {
  const first = Math.max(0, Math.floor(seen.top / height) - more);
  return [first, Math.min(count, Math.ceil((seen.top + seen.height) / height) + more)];
}
