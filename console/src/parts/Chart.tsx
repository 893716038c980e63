// Lines over time, drawn by uPlot in the colours of the theme.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour, theme } from "../base/theme.ts";

export interface Series {
  label: string;
  colour: string;
  values: (number | null)[];
}

interface Props {
  times: number[];
  series: Series[];
  format: (value: number) => string;
  bars?: boolean;
  height?: number;
  label: string;
}

export function Chart({ times, series, format, bars = false, height = 200, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const shade = theme.value;
  useEffect(() => {
    const element = box.current!;
    const plot = new uPlot(options(element.clientWidth, height, series, format, bars), [times, ...series.map((one) => one.values)], element);
    const sized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      plot.destroy();
    };
  }, [times, series, shade, height, bars]);
  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

function options(width: number, height: number, series: Series[], format: (value: number) => string, bars: boolean): uPlot.Options {
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
    legend: { live: true },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [axis, { ...axis, size: 64, values: (_plot, values) => values.map((value) => (value === null ? "" : format(value))) }],
    series: [
      { value: (_plot, time) => (time === null ? "–" : new Date(time * 1000).toLocaleTimeString("en-GB")) },
      ...series.map((one) => {
        const stroke = colour(one.colour);
        return {
          label: one.label,
          stroke,
          width: 1.6,
          fill: `${stroke}22`,
          points: { show: areFew(one.values) },
          value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
          ...(bars ? { paths: uPlot.paths.bars!({ size: [0.7, 26] }), points: { show: false }, fill: `${stroke}99` } : {}),
        };
      }),
    ],
  };
}

function areFew(values: unknown[]): boolean {
  return values.length < 3;
}
