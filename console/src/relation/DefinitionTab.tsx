// The statement that creates a relation.

import { address } from "../base/router.ts";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { SqlText } from "../parts/SqlText.tsx";
import type { Node } from "../server/nodes.ts";
import { get } from "../server/request.ts";
import { useAnswer } from "../server/resource.ts";
import { nodes } from "../server/status.ts";

export function DefinitionTab({ node }: { node: Node }) {
  const kind = node.kind === "view" ? "views" : "tables";
  const path = `${kind}/${encodeURIComponent(node.id)}/definition`;
  const answer = useAnswer(() => get<{ definition: string }>(path), path);
  const readers = nodes.value.filter((one) => one.reads.includes(node.id)).map((one) => one.id);
  if (answer.error !== undefined) return <ErrorBox error={answer.error} again={answer.again} />;
  if (!answer.value) return null;
  const text = answer.value.definition;
  return (
    <div class="definition">
      <pre class="listing">
        <SqlText text={text} />
      </pre>
      <p>
        <button type="button" onClick={() => void navigator.clipboard?.writeText(text)}>
          Copy
        </button>{" "}
        <a class="button" href={address("sql", text)}>
          Open in the editor
        </a>
      </p>
      <Names title="Reads" names={node.reads} />
      <Names title="Read by" names={readers} />
    </div>
  );
}

function Names({ title, names }: { title: string; names: string[] }) {
  if (!names.length) return null;
  return (
    <section class="links">
      <h3>{title}</h3>
      {names.map((name) => (
        <a key={name} href={address("relation", name)}>
          {name}
        </a>
      ))}
    </section>
  );
}
