// Starts the console.

import "uplot/dist/uPlot.min.css";
import "./style/colours.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/data.css";
import "./style/dialogs.css";
import "./style/login.css";
import "./style/graph.css";
import "./style/relation.css";
import "./style/pages.css";
import { render } from "preact";
import { Entrance } from "./login/Entrance.tsx";
import { enter } from "./login/session.ts";

void enter();
render(<Entrance />, document.getElementById("app")!);
