// Tabs whose choice is in the address; arrow keys move between them.

import { address, go } from "../base/router.ts";

export interface Tab {
  id: string;
  title: string;
  count?: number;
}

export function Tabs({ tabs, chosen, page, name }: { tabs: Tab[]; chosen: string; page: string; name: string }) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    go(page, name, next.id);
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" onKeyDown={move}>
      {tabs.map((tab) => (
        <a
          key={tab.id}
          role="tab"
          data-tab={tab.id}
          href={address(page, name, tab.id)}
          aria-selected={tab.id === chosen}
          tabIndex={tab.id === chosen ? 0 : -1}
        >
          {tab.title}
          {tab.count !== undefined && <span class="tab-count">{tab.count}</span>}
        </a>
      ))}
    </div>
  );
}
