// The editor for SQL. It stands in a shadow root, where its styles come as style sheets that the page's policy allows.

import { autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { sql, SQLDialect } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Catalog } from "../server/answers.ts";

export interface Editor {
  selected: () => string;
  replace: (text: string) => void;
  complete: (catalog: Catalog) => void;
  dark: (on: boolean) => void;
  focus: () => void;
  close: () => void;
}

interface Told {
  run: () => void;
  /** The text is another one, or another part of it is selected. */
  changed: (text: string) => void;
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--sql-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--sql-text)" },
  { tag: tags.number, color: "var(--sql-number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--sql-type)" },
]);

const look = EditorView.theme({
  "&": { fontSize: "13.5px", height: "100%", color: "var(--text)", backgroundColor: "var(--surface)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--accent)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "8px", overflow: "hidden" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
});

export function openEditor(host: HTMLElement, text: string, told: Told): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const shade = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        syntaxHighlighting(colours),
        look,
        language.of(sql({ upperCaseKeywords: true })),
        shade.of([]),
        EditorView.contentAttributes.of({ "aria-label": "SQL" }),
        EditorView.domEventHandlers({ beforeinput: replaceSelection }),
        EditorView.updateListener.of((update) => (update.docChanged || update.selectionSet) && told.changed(update.state.doc.toString())),
        keymap.of([
          {
            key: "Mod-Enter",
            run: (at) => {
              closeCompletion(at);
              told.run();
              return true;
            },
          },
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...historyKeymap,
          ...defaultKeymap,
          indentWithTab,
        ]),
      ],
    }),
  });
  return {
    selected: () => {
      const { from, to } = view.state.selection.main;
      return from === to ? view.state.doc.toString() : view.state.sliceDoc(from, to);
    },
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    complete: (catalog) => view.dispatch({ effects: language.reconfigure(languageOf(catalog)) }),
    dark: (on) => view.dispatch({ effects: shade.reconfigure(EditorView.darkTheme.of(on)) }),
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}

/** Replaces selected text by what is typed: browsers would keep its colours as a style, which the page's policy forbids. */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || !event.data || view.state.selection.main.empty) return false;
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

function languageOf(catalog: Catalog) {
  const dialect = SQLDialect.define({
    keywords: catalog.keywords.join(" ").toLowerCase(),
    builtin: catalog.functions.join(" ").toLowerCase(),
    types: "bigint int smallint tinyint string varchar decimal double float boolean date timestamp binary array map struct interval",
    backslashEscapes: true,
    identifierQuotes: "`",
    doubleQuotedStrings: true,
  });
  const schema = Object.fromEntries(
    catalog.relations.map((one) => [
      one.name.replaceAll(".", "\\."),
      one.columns.map((column) => ({ label: column.name, type: "property", detail: column.type.toLowerCase() })),
    ]),
  );
  return sql({ dialect, schema, upperCaseKeywords: true });
}
