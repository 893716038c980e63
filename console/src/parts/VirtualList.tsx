// A long list of things of one height, of which only those in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { oncePerFrame } from "../base/frame.ts";

interface Props<T> {
  items: T[];
  height: number;
  label: string;
  render: (item: T, index: number) => ComponentChildren;
}

export function VirtualList<T>({ items, height, label, render }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 800 });
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
  const first = Math.max(0, Math.floor(seen.top / height) - 4);
  const last = Math.min(items.length, Math.ceil((seen.top + seen.height) / height) + 4);
  return (
    <div ref={box} class="virtual-list" role="list" aria-label={label}>
      <div style={{ height: `${items.length * height}px` }}>
        {items.slice(first, last).map((item, offset) => (
          <div
            key={first + offset}
            role="listitem"
            style={{ transform: `translateY(${(first + offset) * height}px)`, height: `${height}px` }}
          >
            {render(item, first + offset)}
          </div>
        ))}
      </div>
    </div>
  );
}
