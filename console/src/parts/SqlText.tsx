// SQL with its keywords, texts, numbers and comments told apart by colour.

const TOKEN = /(--[^\n]*|\/\*[\s\S]*?\*\/)|('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")|(`[^`]*`)|\b(\d+(?:\.\d+)?)\b|\b([a-zA-Z_]\w*)\b/g;
const KEYWORDS = new Set(
  `all alter and anti any as asc between bigint by case cast check comment count create cross date decimal default delete desc distinct
  double drop else end except exists false feed filter float following for foreign from full grant group having if in inner insert int
  intersect interval into is join key lateral left like limit materialized merge not null nulls on options or order outer over partition
  preceding primary qualify range references refresh replace returns right rollup row rows schema select semi set source stream string
  sum table then timestamp to true union unique update using values varchar view when where window with`.split(/\s+/),
);

export function SqlText({ text }: { text: string }) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = kindOf(match);
    if (!kind) continue;
    pieces.push(text.slice(end, match.index), <span class={kind}>{match[0]}</span>);
    end = match.index + match[0].length;
  }
  return (
    <code class="sql">
      {pieces}
      {text.slice(end)}
    </code>
  );
}

function kindOf(match: RegExpMatchArray): string {
  const [word, comment, quoted, , number] = match;
  if (comment) return "sql-comment";
  if (quoted) return "sql-text";
  if (number) return "sql-number";
  return KEYWORDS.has(word.toLowerCase()) ? "sql-keyword" : "";
}
