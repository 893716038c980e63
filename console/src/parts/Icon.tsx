// Icons as strokes in a square of 24, drawn in the colour of the text.

const PATHS = {
  graph: "M5 6.5a2 2 0 1 0 4 0a2 2 0 1 0-4 0M5 17.5a2 2 0 1 0 4 0a2 2 0 1 0-4 0M15 12a2 2 0 1 0 4 0a2 2 0 1 0-4 0M9 6.8c3 .2 3 5.2 6 5.2M9 17.2c3-.2 3-5.2 6-5.2",
  sql: "M4 5h16v14H4zM7.5 9.5l3 2.5-3 2.5M12.5 15h4",
  builds: "M12 3v4M12 17v4M3 12h4M17 12h4M5.6 5.6l2.9 2.9M15.5 15.5l2.9 2.9M18.4 5.6l-2.9 2.9M8.5 15.5l-2.9 2.9",
  errors: "M12 4 2.8 19.5h18.4zM12 10v4.5M12 17v.2",
  sources: "M4 6.5c0-1.4 3.6-2.5 8-2.5s8 1.1 8 2.5-3.6 2.5-8 2.5-8-1.1-8-2.5zM4 6.5v11c0 1.4 3.6 2.5 8 2.5s8-1.1 8-2.5v-11M4 12c0 1.4 3.6 2.5 8 2.5s8-1.1 8-2.5",
  costs: "M4 20V4M4 20h16M7.5 16l4-5 3 3 5-7",
  search: "M4.5 10.5a6 6 0 1 0 12 0a6 6 0 1 0-12 0M15 15l5 5",
  sun: "M8 12a4 4 0 1 0 8 0a4 4 0 1 0-8 0M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  close: "M6 6l12 12M18 6L6 18",
  back: "M14.5 5l-7 7 7 7",
  clock: "M3.5 12a8.5 8.5 0 1 0 17 0a8.5 8.5 0 1 0-17 0M12 7v5l3.5 2",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  refresh: "M19.5 12a7.5 7.5 0 1 1-2.3-5.4M19.5 3.5v4h-4",
  user: "M8 8a4 4 0 1 0 8 0a4 4 0 1 0-8 0M4.5 20.5c.6-4.2 3.6-6 7.5-6s6.9 1.8 7.5 6",
  tree: "M5 4v16M5 8h7M5 16h7M14.5 8h5M14.5 16h5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
