// Who one is, with which role, and the way out.

import { useSignal } from "@preact/signals";
import { Dialog } from "../parts/Dialog.tsx";
import { ErrorBox } from "../parts/ErrorBox.tsx";
import { Icon } from "../parts/Icon.tsx";
import { type Role, me } from "../server/me.ts";
import { logOut } from "./session.ts";

const MEANS: Record<Role, string> = {
  owner: "everything",
  writer: "reads everything, and changes rows of all tables",
  reader: "reads everything",
  granted: "what was granted to you or to one of your roles",
};

/** Without users whoever is on the machine is the owner, and nobody needs to be told. */
export function Who() {
  const shown = useSignal(false);
  const known = me.value;
  if (!known?.role || known.by === "machine") return null;
  const name = known.user ?? "owner";
  return (
    <>
      <button type="button" class="plain who" aria-label={`You are ${name}, ${known.role}`} onClick={() => (shown.value = true)}>
        <Icon name="user" />
        <span>{name}</span>
        {known.user && <small>{known.role}</small>}
      </button>
      {shown.value && <You name={name} role={known.role} close={() => (shown.value = false)} />}
    </>
  );
}

function You({ name, role, close }: { name: string; role: Role; close: () => void }) {
  const failed = useSignal<unknown>(undefined);
  const leave = async () => {
    try {
      await logOut();
    } catch (fault) {
      failed.value = fault;
    }
  };
  return (
    <Dialog label="You" onClose={close}>
      <div class="question">
        <h2>{name}</h2>
        <dl class="facts">
          <dt>role</dt>
          <dd>{role}</dd>
          <dt>may do</dt>
          <dd>{MEANS[role]}</dd>
          {me.value!.roles.length > 1 && <dt>all roles</dt>}
          {me.value!.roles.length > 1 && <dd>{me.value!.roles.join(", ")}</dd>}
        </dl>
        {failed.value !== undefined && <ErrorBox error={failed.value} />}
        {me.value!.by === "cookie" && (
          <button type="button" class="main" onClick={() => void leave()}>
            Log out
          </button>
        )}{" "}
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
