// Shortcuts: single keys and pairs such as "g s"; none of them while somebody types.

export interface Shortcut {
  keys: string;
  does: string;
  run: () => void;
}

const PAIR_MILLISECONDS = 900;

export function listen(shortcuts: () => Shortcut[]): () => void {
  let first = "";
  let since = 0;
  const heard = (event: KeyboardEvent) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const command = (event.ctrlKey || event.metaKey) && key === "k";
    if (!command && (typing(event) || event.ctrlKey || event.metaKey || event.altKey)) return;
    const pair = first && event.timeStamp - since < PAIR_MILLISECONDS ? `${first} ${key}` : "";
    const all = shortcuts();
    const wanted = command ? "ctrl k" : key;
    const found = all.find((one) => one.keys === pair) ?? all.find((one) => one.keys === wanted);
    first = found || !all.some((one) => one.keys.startsWith(`${key} `)) ? "" : key;
    since = event.timeStamp;
    if (!found) return;
    event.preventDefault();
    found.run();
  };
  addEventListener("keydown", heard);
  return () => removeEventListener("keydown", heard);
}

function typing(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
