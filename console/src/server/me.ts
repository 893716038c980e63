// Who asks, as the server sees it, and what that role may do.

import { signal } from "@preact/signals";

export type Role = "owner" | "writer" | "reader" | "granted";

export interface Me {
  user: string | null;
  roles: string[];
  role: Role | null;
  /** By what the server knows it: a login, a token that somebody else sends, or that there are no users. */
  by: "cookie" | "token" | "machine" | null;
  login_needed: boolean;
}

/** Null until the server has told. */
export const me = signal<Me | null>(null);

const LEVELS: Record<Role, number> = { granted: 0, reader: 1, writer: 2, owner: 3 };

/** Why the page does not offer what needs a role; nothing if it does. */
export function refusal(needs: Role): string {
  const role = me.value?.role ?? "granted";
  if (LEVELS[role] >= LEVELS[needs]) return "";
  const has = role === "granted" ? "you have the rights that were granted to you" : `yours is ${role}`;
  return `This needs the role ${needs}; ${has}.`;
}

/** Whoever may not read everything has tables and views that were granted, and nothing that tells of all. */
export function readsEverything(): boolean {
  return refusal("reader") === "";
}
