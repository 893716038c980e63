// The page that is shown, kept in the address after "#", so that links, the back button and bookmarks work.

import { signal } from "@preact/signals";

export interface Route {
  page: string;
  name: string;
  tab: string;
}

/** `#/relation/a%2Fb/plan` → page "relation", name "a/b", tab "plan". */
export function parseRoute(hash: string): Route {
  const [page = "", name = "", tab = ""] = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  return { page: page || "graph", name, tab };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function address(page: string, name = "", tab = ""): string {
  const parts = [page, name, tab].map(encodeURIComponent);
  while (parts.length > 1 && parts.at(-1) === "") parts.pop();
  return `#/${parts.join("/")}`;
}

export const route = signal<Route>(parseRoute(location.hash));

addEventListener("hashchange", () => {
  route.value = parseRoute(location.hash);
});

export function go(page: string, name = "", tab = ""): void {
  location.hash = address(page, name, tab);
}
