// Logging in and out, and the login that a link of `tidemill ui` brings.

import { signal } from "@preact/signals";
import { parseRoute, route } from "../base/router.ts";
import { type Me, me } from "../server/me.ts";
import { get, post, readMe, ServerError } from "../server/request.ts";

/** Tokens in addresses are those that let in once: nobody is logged in as somebody else by following a link. */
const INVITATION = /^#(tidemill_once_[\w-]+)$/;
/** What the editor keeps in the browser begins so. */
export const KEPT_TEXTS = "tidemill-sql";

export const refused = signal<unknown>(undefined);

/** Finds out who asks; a link with a token logs in, unless somebody is. */
export async function enter(): Promise<void> {
  const invitation = INVITATION.exec(location.hash)?.[1];
  if (invitation) {
    history.replaceState(null, "", "#/"); // so that it is in no bookmark and on no screenshot
    route.value = parseRoute(location.hash);
  }
  await readMe();
  if (invitation && me.value?.login_needed) await logIn(invitation);
}

addEventListener("hashchange", () => void (INVITATION.test(location.hash) && enter()));

export async function logIn(token: string): Promise<void> {
  refused.value = undefined;
  try {
    await post<Me>("login", { token });
    me.value = await get<Me>("me");
    if (me.value.login_needed) throw notKept();
  } catch (fault) {
    refused.value = fault;
  }
}

/** Ends the login. What the editor has kept is deleted: the next user of this browser may be another one. */
export async function logOut(): Promise<void> {
  me.value = await post<Me>("logout");
  for (const key of Object.keys(localStorage)) if (key.startsWith(KEPT_TEXTS)) localStorage.removeItem(key);
}

function notKept(): ServerError {
  const what = "the browser has not kept the login";
  const hint = `Allow cookies for ${location.host}, and log in again.`;
  return new ServerError({ kind: "NoCookie", what, where: "cookie", hint }, 0);
}
