// Numbers, sizes, times and values of rows as people read them.

import { isRawJson } from "./exact_json.ts";

const grouped = new Intl.NumberFormat("en-US");

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : grouped.format(value);
}

/** A count in as few characters as a node of the graph has room for: 1,234 → 1.2k. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return size < 10 && size % 1 !== 0 ? value.toFixed(1) : String(Math.round(value));
  const power = Math.min(4, Math.floor(Math.log10(size) / 3));
  const scaled = value / 1000 ** power;
  return `${Math.abs(scaled) < 9.95 ? scaled.toFixed(1) : Math.round(scaled)}${["", "k", "M", "G", "T"][power]}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${Math.round(value)} B`;
  const power = Math.min(4, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${scaled < 9.95 ? scaled.toFixed(1) : Math.round(scaled)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 s";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${trimmed(value * 1000)} ms`;
  if (value < 90) return `${trimmed(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} days`;
}

function trimmed(value: number): string {
  return value < 9.95 ? String(Number(value.toFixed(1))) : String(Math.round(value));
}

export function rate(value: number): string {
  return value > 0 && value < 0.05 ? "<0.1/s" : `${short(Math.round(value * 10) / 10)}/s`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  return share > 0 && share < 0.01 ? `${(share * 100).toFixed(2)} %` : `${Math.floor(share * 100)} %`;
}

/** A moment from the server as milliseconds, whether it came as ISO text (UTC) or as seconds since 1970. */
export function moment(value: string | number): number {
  if (typeof value === "number") return value * 1000;
  return Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(value) ? value : `${value.replace(" ", "T")}Z`);
}

export function clock(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const when = new Date(moment(value));
  const time = when.toLocaleTimeString("en-GB");
  return when.toDateString() === new Date().toDateString() ? time : `${when.toLocaleDateString("en-CA")} ${time}`;
}

/** One value of a row as text; NULL is told apart by `isNull`. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (isRawJson(value)) return value.rawJSON;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function isNumeric(type: string): boolean {
  return /^(tinyint|smallint|int|integer|bigint|long|float|double|real|decimal|numeric)/i.test(type);
}
