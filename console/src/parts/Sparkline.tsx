// The rate of a node over the last seconds, drawn on a canvas once a frame at most.

import { useEffect, useRef } from "preact/hooks";
import { colour, theme } from "../base/theme.ts";
import { type Flow, pulse } from "../server/status.ts";

export function Sparkline({ flow, width = 120, height = 26 }: { flow: Flow; width?: number; height?: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(
    () => {
      const draw = () => canvas.current && paint(canvas.current, flow.samples, width, height);
      const ends = [pulse.subscribe(draw), theme.subscribe(draw)];
      const timer = setInterval(draw, 500);
      return () => {
        for (const end of ends) end();
        clearInterval(timer);
      };
    },
    [flow, width, height],
  );
  return <canvas ref={canvas} class="sparkline" style={{ width: `${width}px`, height: `${height}px` }} aria-hidden="true" />;
}

function paint(canvas: HTMLCanvasElement, samples: Float32Array, width: number, height: number): void {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== width * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const top = Math.max(1, ...samples);
  const x = (at: number) => (at / (samples.length - 1)) * width;
  const y = (value: number) => height - 1.5 - (value / top) * (height - 4);
  pen.beginPath();
  samples.forEach((value, at) => (at === 0 ? pen.moveTo(0, y(value)) : pen.lineTo(x(at), y(value))));
  pen.strokeStyle = colour("--accent");
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(0, height);
  pen.globalAlpha = 0.13;
  pen.fillStyle = colour("--accent");
  pen.fill();
  pen.globalAlpha = 1;
}
