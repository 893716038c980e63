// The frame around every page: navigation, the state of the warehouse, shortcuts.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { useEffect } from "preact/hooks";
import { count, rate } from "./base/format.ts";
import { listen, type Shortcut } from "./base/keyboard.ts";
import { address, go, route } from "./base/router.ts";
import { switchTheme } from "./base/theme.ts";
import { GraphPage } from "./graph/GraphPage.tsx";
import { Who } from "./login/Who.tsx";
import { BuildsPage } from "./operations/BuildsPage.tsx";
import { CostsPage } from "./operations/CostsPage.tsx";
import { SourcesPage } from "./operations/SourcesPage.tsx";
import { TroublePage } from "./operations/TroublePage.tsx";
import { Dialog } from "./parts/Dialog.tsx";
import { ErrorBox } from "./parts/ErrorBox.tsx";
import { Icon, type IconName } from "./parts/Icon.tsx";
import { Palette } from "./parts/Palette.tsx";
import { Sparkline } from "./parts/Sparkline.tsx";
import { ThemeButton } from "./parts/ThemeButton.tsx";
import { RelationPage } from "./relation/RelationPage.tsx";
import { readsEverything, refusal } from "./server/me.ts";
import { connected, epoch, failure, follow, pulse, readStatus, status, total } from "./server/status.ts";

const SqlPage = lazy(() => import("./query/SqlPage.tsx").then((module) => module.SqlPage));

interface Page {
  id: string;
  title: string;
  icon: IconName;
  key: string;
  /** It tells of all tables and views. */
  ofAll?: boolean;
}

const PAGES: Page[] = [
  { id: "graph", title: "Graph", icon: "graph", key: "g" },
  { id: "sql", title: "SQL", icon: "sql", key: "s" },
  { id: "costs", title: "Costs", icon: "costs", key: "c", ofAll: true },
  { id: "builds", title: "Builds", icon: "builds", key: "b", ofAll: true },
  { id: "sources", title: "Sources", icon: "sources", key: "o", ofAll: true },
  { id: "trouble", title: "Trouble", icon: "errors", key: "t", ofAll: true },
];

function whyNot(page: Page | undefined): string {
  return page?.ofAll ? refusal("reader") : "";
}

export function App() {
  const over = useSignal<"" | "palette" | "help">("");
  const { page, name, tab } = route.value;
  const offered = PAGES.filter((one) => !whyNot(one));

  const shortcuts: Shortcut[] = [
    { keys: "ctrl k", does: "Command palette", run: () => (over.value = "palette") },
    { keys: "/", does: "Find a table or view", run: () => (over.value = "palette") },
    ...offered.map((one) => ({ keys: `g ${one.key}`, does: `Go to ${one.title}`, run: () => go(one.id) })),
    { keys: "d", does: "Light or dark", run: switchTheme },
    { keys: "?", does: "Shortcuts", run: () => (over.value = "help") },
  ];
  useEffect(follow, []);
  useEffect(() => listen(() => (over.value ? [] : shortcuts)), []);
  useEffect(() => {
    document.title = `${name || (PAGES.find((one) => one.id === page)?.title ?? "Tidemill")} · ${status.value?.warehouse ?? "Tidemill"}`;
    document.querySelector("main")?.scrollTo(0, 0);
  }, [page, name, status.value?.warehouse]);

  const commands = [
    ...offered.map((one) => ({ title: one.title, about: "page", run: () => go(one.id) })),
    { title: "Switch between light and dark", about: "command", run: switchTheme },
    { title: "Show shortcuts", about: "command", run: () => (over.value = "help") },
  ];
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the page
      </a>
      <Navigation page={page} />
      <TopBar find={() => (over.value = "palette")} />
      <main id="main" tabIndex={-1}>
        {failure.value !== null && <ErrorBox error={failure.value} again={() => void readStatus()} />}
        <Suspense fallback={<p class="quiet loading">Loading…</p>}>{pageOf(page, name, tab)}</Suspense>
      </main>
      {over.value === "palette" && <Palette commands={commands} close={() => (over.value = "")} />}
      {over.value === "help" && <Help shortcuts={shortcuts} close={() => (over.value = "")} />}
    </div>
  );
}

function pageOf(page: string, name: string, tab: string) {
  const refused = whyNot(PAGES.find((one) => one.id === page));
  if (refused) return <p class="page nothing-here">{refused}</p>;
  switch (page) {
    case "graph":
      return <GraphPage />;
    case "relation":
      return <RelationPage key={name} name={name} tab={tab} />;
    case "sql":
      return <SqlPage text={name} />;
    case "costs":
      return <CostsPage />;
    case "builds":
      return <BuildsPage />;
    case "sources":
      return <SourcesPage />;
    case "trouble":
      return <TroublePage />;
    default:
      return <ErrorBox error={new Error(`There is no page "${page}".`)} />;
  }
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Navigation({ page }: { page: string }) {
  const known = status.value;
  const counts: Record<string, number> = {
    builds: known?.builds.length ?? 0,
    trouble: Object.keys(known?.troubles ?? {}).length + (known?.views.filter((view) => view.state === "quarantined").length ?? 0),
  };
  return (
    <nav class="navigation" aria-label="Pages">
      <a class="brand" href={address("graph")} aria-label="Tidemill">
        <img src="assets/icon.svg" width={28} height={28} alt="" />
      </a>
      {PAGES.map((one) => {
        const why = whyNot(one);
        const link = why ? { "aria-disabled": true, title: why } : { href: address(one.id) };
        return (
          <a key={one.id} aria-current={page === one.id ? "page" : undefined} {...link}>
            <Icon name={one.icon} size={20} />
            <span>{one.title}</span>
            {counts[one.id] ? <b class="count">{counts[one.id]}</b> : null}
          </a>
        );
      })}
    </nav>
  );
}

function TopBar({ find }: { find: () => void }) {
  const known = status.value;
  return (
    <header class="top">
      <div class="top-name">
        <b>{known?.warehouse ?? "Tidemill"}</b>
      </div>
      {readsEverything() ? <Ticker /> : <div class="ticker" />}
      <button type="button" class="find" onClick={find} aria-label="Find a table or view, or a command">
        <Icon name="search" size={16} />
        <span>Find</span>
        <kbd>Ctrl K</kbd>
      </button>
      <ThemeButton />
      <Who />
    </header>
  );
}

function Ticker() {
  void pulse.value;
  const known = status.value;
  const shown = Math.max(epoch.value, known?.epoch ?? 0);
  return (
    <div class="ticker">
      <span class={`live ${connected.value ? "on" : ""}`} title={connected.value ? "live" : "not connected"}>
        <i class="dot" />
        {connected.value ? "live" : "waiting"}
      </span>
      <span>
        epoch <b data-testid="epoch">{count(shown)}</b>
      </span>
      <span class="wide">
        <b>{rate(total.in)}</b> rows
      </span>
      <span class="wide">
        <Sparkline flow={total} width={110} height={24} />
      </span>
    </div>
  );
}

function Help({ shortcuts, close }: { shortcuts: Shortcut[]; close: () => void }) {
  return (
    <Dialog label="Shortcuts" onClose={close}>
      <div class="help">
        <h2>Shortcuts</h2>
        <dl>
          {shortcuts.map((one) => (
            <div key={one.keys}>
              <dt>
                {one.keys.split(" ").map((key) => (
                  <kbd key={key}>{key === "ctrl" ? "Ctrl" : key.toUpperCase()}</kbd>
                ))}
              </dt>
              <dd>{one.does}</dd>
            </div>
          ))}
          <div>
            <dt>
              <kbd>←</kbd>
              <kbd>→</kbd>
            </dt>
            <dd>In the graph: what a view reads, who reads it</dd>
          </div>
          <div>
            <dt>
              <kbd>Ctrl</kbd>
              <kbd>Enter</kbd>
            </dt>
            <dd>In the SQL editor: run</dd>
          </div>
        </dl>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
