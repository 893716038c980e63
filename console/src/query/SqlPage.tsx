// The SQL editor, with what its statements gave and how a view would be kept fresh.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, seconds } from "../base/format.ts";
import { theme } from "../base/theme.ts";
import { KEPT_TEXTS } from "../login/session.ts";
import { ActButton } from "../parts/ActButton.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { Icon } from "../parts/Icon.tsx";
import { VirtualRows } from "../parts/VirtualRows.tsx";
import type { Catalog, SqlResult } from "../server/answers.ts";
import { mayChangeSomeRows } from "../server/granted.ts";
import { me, refusal } from "../server/me.ts";
import { get, post } from "../server/request.ts";
import { readStatus } from "../server/status.ts";
import { type Editor, openEditor } from "./editor.ts";
import { roleFor } from "./statement_rights.ts";

const MOST_HISTORY = 30;
const LIMIT = 10_000;
const EXAMPLE = "SHOW VIEWS";

export function SqlPage({ text }: { text: string }) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const results = useSignal<SqlResult[] | null>(null);
  const failed = useSignal<unknown>(undefined);
  const running = useSignal(false);
  const past = useSignal<string[]>(history());
  const why = useSignal("");
  const mayChange = useSignal(refusal("writer") === "");

  const look = () => {
    const needed = roleFor(editor.current?.selected() ?? "");
    why.value = needed === "writer" && mayChange.value ? "" : refusal(needed);
  };

  const learnGrants = async () => {
    mayChange.value = await mayChangeSomeRows().catch(() => false);
    look();
  };

  const run = async (explain = false) => {
    const sql = editor.current?.selected() ?? "";
    look();
    if (!sql.trim() || running.value || (why.value && !explain)) return;
    running.value = true;
    failed.value = undefined;
    try {
      const answer = await post<{ results: SqlResult[] }>("sql", { sql: explain ? explained(sql) : sql, limit: LIMIT });
      results.value = answer.results;
      past.value = remember(sql);
      void readStatus().then(() => completions(editor.current));
    } catch (fault) {
      failed.value = fault;
      results.value = null;
    } finally {
      running.value = false;
    }
  };

  useEffect(() => {
    const made = openEditor(host.current!, text || localStorage.getItem(keyOf("text")) || EXAMPLE, {
      run: () => void run(),
      changed: (now) => {
        localStorage.setItem(keyOf("text"), now);
        look();
      },
    });
    editor.current = made;
    look();
    if (!mayChange.value) void learnGrants();
    void completions(made);
    made.focus();
    const end = theme.subscribe((now) => made.dark(now === "dark"));
    return () => {
      end();
      made.close();
    };
  }, []);

  return (
    <div class="sql-page">
      <h1 class="only-read">SQL editor</h1>
      <div class="editor" ref={host} />
      <div class="rows-tools">
        <button type="button" class="main" disabled={running.value || why.value !== ""} title={why.value || undefined} onClick={() => void run()}>
          <Icon name="play" size={15} /> {running.value ? "Running…" : "Run"} <kbd>Ctrl ↵</kbd>
        </button>
        <ActButton needs="reader" disabled={running.value} onClick={() => void run(true)}>
          <Icon name="tree" size={15} /> Plan
        </ActButton>
        <span class="quiet refusal" role="status">
          {why.value}
        </span>
        <label class="grow-right">
          <span class="only-read">Earlier statements</span>
          <select
            value=""
            onChange={(event) => {
              editor.current?.replace(past.value[Number(event.currentTarget.value)] ?? "");
              event.currentTarget.value = "";
            }}
          >
            <option value="">Earlier statements</option>
            {past.value.map((one, at) => (
              <option key={one} value={at}>
                {one.replace(/\s+/g, " ").slice(0, 80)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {failed.value !== undefined && <ErrorBox error={failed.value} />}
      <div class="results">{results.value?.map((result, at) => <Result key={at} result={result} />)}</div>
    </div>
  );
}

function Result({ result }: { result: SqlResult }) {
  const text = planText(result);
  return (
    <section class="result">
      <p class="quiet" role="status">
        {result.columns.length ? `${count(result.count)} rows` : result.message} in {seconds(result.seconds)}, epoch{" "}
        {count(result.epoch)}
        {result.rows.length < result.count && result.columns.length > 0 && `; the first ${count(result.rows.length)} are shown`}
      </p>
      {text !== null && <pre class="listing">{text}</pre>}
      {text === null && result.columns.length > 0 && (
        <div class="result-rows" style={{ height: `${Math.min(440, 52 + result.rows.length * 30)}px` }}>
          <VirtualRows columns={result.columns} rows={result.rows} label="Result" />
        </div>
      )}
    </section>
  );
}

/** A plan comes as one column of lines. */
function planText(result: SqlResult): string | null {
  const lines = result.rows.map((row) => row[0]);
  const plan = result.columns.length === 1 && /^(plan|explain|explanation)$/i.test(result.columns[0]!.name);
  return plan ? lines.join("\n") : null;
}

function explained(sql: string): string {
  return /^\s*explain\b/i.test(sql) ? sql : `EXPLAIN ${sql}`;
}

async function completions(editor: Editor | null): Promise<void> {
  try {
    editor?.complete(await get<Catalog>("catalog"));
  } catch {
    // Without a catalog keywords are completed alone; the page has said what is wrong.
  }
}

/** Each user of a browser has texts of his own. */
function keyOf(what: string): string {
  return [KEPT_TEXTS, what, me.value?.user ?? ""].join(" ");
}

function history(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf("history")) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function remember(sql: string): string[] {
  const kept = [sql, ...history().filter((one) => one !== sql)].slice(0, MOST_HISTORY);
  localStorage.setItem(keyOf("history"), JSON.stringify(kept));
  return kept;
}
