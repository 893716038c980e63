// The console for whoever is known, and the login for everybody else.

import { useRef } from "preact/hooks";
import { App } from "../app.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { me } from "../server/me.ts";
import { unanswered } from "../server/request.ts";
import { LoginPage } from "./LoginPage.tsx";
import { enter } from "./session.ts";

export function Entrance() {
  const before = useRef(false);
  const known = me.value;
  if (!known) return unanswered.value === undefined ? null : <ErrorBox error={unanswered.value} again={() => void enter()} />;
  if (known.login_needed) return <LoginPage ended={before.current} />;
  before.current = true;
  // Whoever comes with another name or other roles finds nothing of what the one before has seen.
  return <App key={JSON.stringify([known.user, known.roles])} />;
}
