// Work that is done at most once a frame, however often it is asked for.

export function oncePerFrame(work: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

export const calm = matchMedia("(prefers-reduced-motion: reduce)");
