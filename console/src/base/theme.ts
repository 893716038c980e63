// Light or dark: as the system has it, until the switch says otherwise.

import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "tidemill-theme";

export const theme = signal<Theme>(chosen() ?? systemTheme());

function systemTheme(): Theme {
  return system.matches ? "dark" : "light";
}

function chosen(): Theme | null {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : null;
}

system.addEventListener("change", () => {
  if (chosen() === null) theme.value = systemTheme();
});

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function switchTheme(): void {
  const next = theme.value === "dark" ? "light" : "dark";
  if (next === systemTheme()) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  theme.value = next;
}

/** The value of a CSS variable, for what is drawn on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
