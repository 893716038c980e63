// What the statements of a text take. The server decides: here it is what is not even offered.

import type { Role } from "../server/me.ts";

const NO_WORDS = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`/g;
const TEMPORARY = /^(create (or replace )?(global )?|drop )temp(orary)?\b/;

const BY_FIRST_WORD: Partial<Record<Role, string[]>> = {
  owner: words("alter analyze cancel create define drop grant pause promote refresh release replay resume revoke truncate"),
  writer: words("insert update delete merge"),
  reader: words("explain oql"),
};

/** The role without which nothing of this is done; with grants less may be enough where it is "writer". */
export function roleFor(sql: string): Role {
  const statements = sql
    .replace(NO_WORDS, " ")
    .split(";")
    .map((one) => one.trim().replace(/\s+/g, " ").toLowerCase());
  const roles: Role[] = ["owner", "writer", "reader"];
  return roles.find((role) => statements.some((one) => needs(one, role))) ?? "granted";
}

function needs(statement: string, role: Role): boolean {
  if (TEMPORARY.test(statement)) return false;
  return BY_FIRST_WORD[role]?.includes(/^\w*/.exec(statement)![0]) ?? false;
}

function words(text: string): string[] {
  return text.split(" ");
}
