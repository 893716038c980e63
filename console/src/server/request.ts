// Requests to the server, and its errors with their four fields.

import { signal } from "@preact/signals";
import { parseExactly } from "../base/exact_json.ts";
import { type Me, me } from "./me.ts";

export interface ErrorFields {
  kind: string;
  what: string;
  where?: string | null;
  detail?: string | null;
  hint?: string | null;
}

export class ServerError extends Error {
  constructor(
    readonly fields: ErrorFields,
    readonly status: number,
  ) {
    super(fields.what);
  }
}

const BASE = new URL("v1/", document.baseURI);

export function endpoint(path: string, query: Record<string, string | number | undefined> = {}): string {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** Path of something of a view or table: `of("a/b", "costs")` → "views/a%2Fb/costs". */
export function ofView(name: string, ...rest: string[]): string {
  return ["views", name, ...rest].map(encodeURIComponent).join("/");
}

export async function get<T>(path: string, query?: Record<string, string | number | undefined>): Promise<T> {
  return answered<T>(() => fetch(endpoint(path, query), { headers: { Accept: "application/json" } }));
}

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  return answered<T>(() => fetch(endpoint(path), { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answered<T>(send: () => Promise<Response>): Promise<T> {
  let response: Response;
  try {
    response = await send();
  } catch (fault) {
    throw unreachable(fault);
  }
  // A login may have ended, or its roles have changed.
  if (response.status === 401 || response.status === 403) void readMe();
  if (!response.ok) throw new ServerError(await errorFields(response), response.status);
  return parseExactly(await response.text()) as T;
}

/** Why the server has not told who asks. */
export const unanswered = signal<unknown>(undefined);

let asking: Promise<void> | undefined;

/** Asks who asks, once for all who want to know. While the server does not answer it is whoever it was. */
export function readMe(): Promise<void> {
  asking ??= askMe().finally(() => (asking = undefined));
  return asking;
}

async function askMe(): Promise<void> {
  try {
    me.value = await get<Me>("me");
    unanswered.value = undefined;
  } catch (fault) {
    unanswered.value = fault;
  }
}

function unreachable(fault: unknown): ServerError {
  return new ServerError(
    {
      kind: "Unreachable",
      what: "the server does not answer",
      where: BASE.host,
      detail: fault instanceof Error ? fault.message : String(fault),
      hint: "See whether its process still runs; the page goes on by itself once it does.",
    },
    0,
  );
}

async function errorFields(response: Response): Promise<ErrorFields> {
  const path = new URL(response.url).pathname;
  const fallback = { kind: "HttpError", what: `the server answered ${response.status}`, where: path };
  try {
    const body = (await response.json()) as { error?: ErrorFields };
    return body.error ?? fallback;
  } catch {
    return fallback;
  }
}

/** Whatever was thrown, as the four fields that an ErrorBox shows. */
export function fieldsOf(fault: unknown): ErrorFields {
  if (fault instanceof ServerError) return fault.fields;
  return { kind: "ConsoleFault", what: fault instanceof Error ? fault.message : String(fault) };
}
