// A long list of things of one height, of which only those in sight are in the page.

import type { ComponentChildren } from "preact";
import { rowsInSight, useScrolled } from "./scrolled.ts";

const MARGIN = 4;

interface Props<T> {
  items: T[];
  height: number;
  label: string;
  render: (item: T, index: number) => ComponentChildren;
}

export function VirtualList<T>({ items, height, label, render }: Props<T>) {
  const [box, seen] = useScrolled();
  const [first, last] = rowsInSight(seen, height, items.length, MARGIN);
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
