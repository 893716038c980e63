// Mouse, touch and wheel on the graph: drag to move, pinch or wheel to zoom, click to choose, twice to open.

import type { Scene } from "./scene.ts";

interface Told {
  choose: (name: string) => void;
  open: (name: string) => void;
}

const CLICK_DISTANCE = 5;

export function handlePointer(canvas: HTMLCanvasElement, scene: Scene, told: Told): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  const spot = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  const pressed = (event: PointerEvent) => {
    canvas.setPointerCapture(event.pointerId);
    if (!down.size) travelled = 0;
    down.set(event.pointerId, spot(event));
  };
  const moved = (event: PointerEvent) => {
    const now = spot(event);
    const before = down.get(event.pointerId);
    if (!before) {
      hover(scene.under(now.x, now.y));
      return;
    }
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) pinch(before, now, other);
    else scene.pan(now.x - before.x, now.y - before.y);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    down.set(event.pointerId, now);
  };
  const pinch = (before: { x: number; y: number }, now: { x: number; y: number }, other: { x: number; y: number }) => {
    const then = Math.hypot(before.x - other.x, before.y - other.y);
    const distance = Math.hypot(now.x - other.x, now.y - other.y);
    if (then > 0) scene.zoomAt(distance / then, (now.x + other.x) / 2, (now.y + other.y) / 2);
  };
  const released = (event: PointerEvent) => {
    const was = down.delete(event.pointerId);
    if (was && travelled < CLICK_DISTANCE && event.type === "pointerup") {
      const { x, y } = spot(event);
      told.choose(scene.under(x, y));
    }
  };
  const hover = (name: string) => {
    if (name === scene.hovered) return;
    scene.hovered = name;
    canvas.style.cursor = name ? "pointer" : "grab";
    scene.ask();
  };
  const left = () => hover("");
  const twice = (event: MouseEvent) => {
    const { x, y } = spot(event);
    const name = scene.under(x, y);
    if (name) told.open(name);
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const { x, y } = spot(event);
    scene.zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
  };

  const ended = new AbortController();
  const options = { signal: ended.signal };
  canvas.addEventListener("pointerdown", pressed, options);
  canvas.addEventListener("pointermove", moved, options);
  canvas.addEventListener("pointerup", released, options);
  canvas.addEventListener("pointercancel", released, options);
  canvas.addEventListener("pointerleave", left, options);
  canvas.addEventListener("dblclick", twice, options);
  canvas.addEventListener("wheel", wheel, { ...options, passive: false });
  return () => ended.abort();
}
