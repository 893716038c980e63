// Rows of any number in a box that scrolls: only those in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { cell, isNumeric } from "../base/format.ts";
import type { Column, Row } from "../server/answers.ts";
import { rowsInSight, useScrolled } from "./scrolled.ts";

const ROW_HEIGHT = 30;
const MARGIN_ROWS = 8;
/** Browsers draw no box that is taller than some million pixels. */
const MOST_ROWS = 500_000;
const SAMPLE = 80;
const DIGIT = 7.8;

interface Props {
  columns: Column[];
  rows: Row[];
  label: string;
  /** Something in front of each row, such as a weight. */
  lead?: (index: number) => ComponentChildren;
  leadTitle?: string;
  rowClass?: (index: number) => string;
  onPick?: (row: Row, index: number) => void;
  onEnd?: () => void;
  picked?: number;
}

export function VirtualRows({ columns, rows, label, lead, leadTitle = "", rowClass, onPick, onEnd, picked = -1 }: Props) {
  const [box, seen] = useScrolled();
  const [active, setActive] = useState(0);
  const widths = useMemo(() => columnWidths(columns, rows), [columns, rows.length === 0, rows[0]]);
  const shown = Math.min(rows.length, MOST_ROWS);
  const [first, last] = rowsInSight(seen, ROW_HEIGHT, shown, MARGIN_ROWS);
  const template = `${lead ? "84px " : ""}${widths.map((width) => `minmax(${width}px, ${width}fr)`).join(" ")}`;
  const least = widths.reduce((sum, width) => sum + width, lead ? 84 : 0);

  useEffect(() => {
    if (onEnd && shown > 0 && last >= shown) onEnd();
  }, [last, shown]);

  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -shown, End: shown };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      const next = Math.max(0, Math.min(shown - 1, active + step));
      setActive(next);
      keepInSight(box.current!, next);
    } else if (event.key === "Enter" && onPick && rows[active]) {
      onPick(rows[active], active);
    }
  };

  return (
    <div ref={box} class="rows" role="table" aria-label={label} aria-rowcount={rows.length} tabIndex={0} onKeyDown={move}>
      <div class="rows-head" role="row" style={{ gridTemplateColumns: template, minWidth: `${least}px` }}>
        {lead && <span role="columnheader">{leadTitle}</span>}
        {columns.map((column) => (
          <span role="columnheader" key={column.name} class={isNumeric(column.type) ? "number" : ""} title={column.type}>
            {column.name}
            <small>{column.type.toLowerCase()}</small>
          </span>
        ))}
      </div>
      <div role="rowgroup" class="rows-body" style={{ height: `${shown * ROW_HEIGHT}px`, minWidth: `${least}px` }}>
        {rows.slice(first, last).map((row, offset) => {
          const index = first + offset;
          const classes = `row ${onPick ? "can-pick" : ""} ${index === active ? "active" : ""} ${index === picked ? "picked" : ""}`;
          return (
            <div
              key={index}
              role="row"
              aria-rowindex={index + 1}
              class={`${classes} ${rowClass?.(index) ?? ""}`}
              style={{ transform: `translateY(${index * ROW_HEIGHT}px)`, gridTemplateColumns: template }}
              onClick={() => {
                setActive(index);
                onPick?.(row, index);
              }}
            >
              {lead && <span role="cell">{lead(index)}</span>}
              {columns.map((column, at) => (
                <Cell key={column.name} value={row[at]} number={isNumeric(column.type)} />
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Cell({ value, number }: { value: unknown; number: boolean }) {
  const text = cell(value);
  const missing = value === null || value === undefined;
  return (
    <span role="cell" class={`${number ? "number" : ""} ${missing ? "null" : ""}`} title={text.length > 24 ? text : undefined}>
      {text}
    </span>
  );
}

function columnWidths(columns: Column[], rows: Row[]): number[] {
  return columns.map((column, at) => {
    const heading = column.name.length + column.type.length * 0.8 + 3;
    const longest = rows.slice(0, SAMPLE).reduce((most, row) => Math.max(most, cell(row[at]).length), heading);
    return Math.round(Math.min(360, Math.max(64, longest * DIGIT + 26)));
  });
}

function keepInSight(box: HTMLElement, index: number): void {
  const top = index * ROW_HEIGHT;
  const room = box.clientHeight - 2 * ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top > box.scrollTop + room) box.scrollTop = top - room;
}
