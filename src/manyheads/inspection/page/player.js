// Plays steps one after the other. With reduced motion, each press of Play moves a single step.

const PACE = 900; // milliseconds per step

// now(), last(): the current and the last step; go(n): moves to a step; shown(): whether the view is still on the page;
// turned(playing): called when playing starts or stops.
export function makePlayer({ now, last, go, shown, turned, wait = PACE }) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    turned(false);
  };
  const tick = () => {
    if (now() === last() || !shown()) stop();
    else go(now() + 1);
  };
  const start = () => {
    if (now() === last()) go(1);
    timer = setInterval(tick, wait);
    turned(true);
  };
  const toggle = () => {
    if (timer) stop();
    else if (calm.matches) go(now() === last() ? 1 : now() + 1);
    else start();
  };
  return { toggle, stop };
}
