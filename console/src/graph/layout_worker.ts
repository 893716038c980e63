// The layout, in a thread of its own: hundreds of nodes take longer than a frame.

import { place, type Wanted } from "./layout.ts";

addEventListener("message", (message: MessageEvent<Wanted>) => {
  postMessage(place(message.data));
});
