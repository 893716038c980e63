// Lines over time, drawn by uPlot in the colours of the theme.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour, theme } from "../base/theme.ts";

export interface Series {
  label: string;
  colour: string;
  values: (number | null)[];
}

const PADDING = 8;

interface Props {
  times: number[];
  series: Series[];
  format: (value: number) => string;
  height?: number;
  label: string;
}

export function Chart({ times, series, format, height = 190, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const shade = theme.value;
  useEffect(() => {
    const element = box.current!;
    const plot = new uPlot(options(roomIn(element), height, series, format), [times, ...series.map((one) => one.values)], element);
    const sized = new ResizeObserver(() => plot.setSize({ width: roomIn(element), height }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      plot.destroy();
    };
  }, [times, series, shade, height]);
  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

function roomIn(element: HTMLElement): number {
  return element.clientWidth - 2 * PADDING;
}

/** Values differ a thousandfold from one refresh to the next, so they are on a logarithmic scale. */
function options(width: number, height: number, series: Series[], format: (value: number) => string): uPlot.Options {
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height,
    padding: [12, 12, 0, 0],
    cursor: { y: false, points: { size: 7 } },
    scales: { y: { distr: 3 } },
    axes: [
      { ...axis, space: 90, values: (_plot, times) => times.map(clockOf) },
      { ...axis, size: 66, values: (_plot, values) => values.map((value) => (isPower(value) ? format(value) : "")) },
    ],
    series: [
      { label: "time", value: (_plot, time) => (time === null ? "–" : clockOf(time)) },
      ...series.map((one) => {
        const stroke = colour(one.colour);
        return {
          label: one.label,
          stroke,
          width: 1.5,
          spanGaps: true,
          points: { show: one.values.length < 60, size: 5, fill: stroke },
          value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
        };
      }),
    ],
  };
}

function clockOf(time: number): string {
  return new Date(time * 1000).toLocaleTimeString("en-GB");
}

/** Only powers of ten are written at the axis: between them there are eight lines. */
function isPower(value: number | null): value is number {
  return value !== null && value > 0 && Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
}
