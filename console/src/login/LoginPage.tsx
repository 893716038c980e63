// The page in front of all others where there are users and nobody is logged in.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { ThemeButton } from "../parts/ThemeButton.tsx";
import { readMe } from "../server/request.ts";
import { logIn, refused } from "./session.ts";

export function LoginPage({ ended }: { ended: boolean }) {
  const field = useRef<HTMLInputElement>(null);
  const asking = useSignal(false);

  useEffect(() => {
    document.title = "Log in · Tidemill";
    field.current?.focus();
    const seen = () => document.hidden || void readMe(); // perhaps logged in on another page
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, []);

  const submit = async (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (!token || asking.value) return;
    asking.value = true;
    await logIn(token);
    asking.value = false;
    field.current?.focus();
    field.current?.select();
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <header>
          <img src="assets/icon.svg" width={32} height={32} alt="" />
          <h1>Log in</h1>
          <ThemeButton />
        </header>
        <p class="quiet">
          {ended ? "The login has ended: log in to go on. " : ""}
          {location.host} is for its users.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          ref={field}
          type="password"
          autocomplete="current-password"
          autocapitalize="off"
          spellcheck={false}
          aria-describedby="token-hint"
          aria-invalid={refused.value !== undefined}
        />
        <p id="token-hint" class="quiet">
          It begins with <code>tidemill_</code>. Whoever runs the server makes one with <code>tidemill user token NAME</code>.
        </p>
        {refused.value !== undefined && <ErrorBox error={refused.value} />}
        <button type="submit" class="main" disabled={asking.value}>
          {asking.value ? "Logging in…" : "Log in"}
        </button>
      </form>
    </main>
  );
}
