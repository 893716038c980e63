// What does not go on: feeds and views that stopped, and views with rows held back.

import { address } from "../base/router.ts";
import { behind, StateBadge } from "../parts/Badges.tsx";
import { status } from "../server/status.ts";

export function TroublePage() {
  const known = status.value;
  const troubles = Object.entries(known?.troubles ?? {});
  const held = known?.views.filter((view) => view.state === "quarantined") ?? [];
  const late = known?.views.filter((view) => view.state === "behind") ?? [];
  return (
    <div class="page">
      <h1>Trouble</h1>
      {troubles.map(([name, told]) => (
        <section class="card" key={name}>
          <h3>{name}</h3>
          <pre class="listing">{told}</pre>
        </section>
      ))}
      {held.length > 0 && <h2>Rows held back</h2>}
      {held.map((view) => (
        <p key={view.name} class="line">
          <StateBadge state={view.state} />
          <a href={address("relation", view.name, "errors")}>{view.name}</a>
          <span class="quiet">{view.note}</span>
        </p>
      ))}
      {late.length > 0 && <h2>Behind</h2>}
      {late.map((view) => (
        <p key={view.name} class="line">
          <StateBadge state={view.state} />
          <a href={address("relation", view.name)}>{view.name}</a>
          <span class="quiet">
            {behind(view)}, refresh {view.refresh}
          </span>
        </p>
      ))}
      {known && !troubles.length && !held.length && !late.length && <p class="nothing-here">Everything goes on, and every view is fresh.</p>}
    </div>
  );
}
