// Starts the console.

import "uplot/dist/uPlot.min.css";
import "./style/colours.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/data.css";
import "./style/dialogs.css";
import "./style/graph.css";
import "./style/relation.css";
import "./style/pages.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { follow } from "./server/status.ts";

follow();
render(<App />, document.getElementById("app")!);
