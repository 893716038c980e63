// The command palette: go to any relation or page, or do something, from the keyboard.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go } from "../base/router.ts";
import { nodes } from "../server/status.ts";
import { Dialog } from "./Dialog.tsx";
import { type Command, matching } from "./matching.ts";

const MOST = 40;

export function Palette({ commands, close }: { commands: Command[]; close: () => void }) {
  const text = useSignal("");
  const at = useSignal(0);
  const list = useRef<HTMLUListElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const relations = nodes.value
    .filter((node) => node.relation)
    .map((node) => ({ title: node.label, about: node.kind, run: () => go("relation", node.id) }));
  const found = matching(text.value, [...commands, ...relations]).slice(0, MOST);

  useEffect(() => input.current?.focus(), []);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [at.value]);

  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") at.value = Math.min(found.length - 1, at.value + 1);
    else if (event.key === "ArrowUp") at.value = Math.max(0, at.value - 1);
    else if (event.key === "Enter") run(found[at.value]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog label="Command palette" onClose={close}>
      <div class="palette">
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={`palette-${at.value}`}
          placeholder="Go to a table or view, or do something"
          ref={input}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            at.value = 0;
          }}
          onKeyDown={key}
        />
        <ul ref={list} id="palette-list" role="listbox">
          {found.map((command, index) => (
            <li
              key={`${command.about} ${command.title}`}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === at.value}
              onPointerMove={() => (at.value = index)}
              onClick={() => run(command)}
            >
              <span>{command.title}</span>
              <small>{command.about}</small>
            </li>
          ))}
        </ul>
        {!found.length && <p class="quiet">Nothing has that name.</p>}
      </div>
    </Dialog>
  );
}
