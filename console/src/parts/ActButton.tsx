// A button for what takes a role: who has not got it cannot press it, and reads why.

import type { ComponentChildren } from "preact";
import { type Role, refusal } from "../server/me.ts";

interface Props {
  needs: Role;
  onClick: () => void;
  class?: string;
  disabled?: boolean;
  children: ComponentChildren;
}

export function ActButton({ needs, disabled = false, ...rest }: Props) {
  const why = refusal(needs);
  return <button type="button" disabled={disabled || why !== ""} title={why || undefined} {...rest} />;
}

/** The reason, for all buttons beside it: nobody can point at a button on a phone, or with the keyboard if it is disabled. */
export function Refusal({ needs }: { needs: Role }) {
  const why = refusal(needs);
  return why ? <span class="quiet refusal">{why}</span> : null;
}
