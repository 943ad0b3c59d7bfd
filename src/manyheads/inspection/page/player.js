// Step after step, by itself. Who wants no motion on the screen goes on one step at a time.

const PACE = 900; // milliseconds a step

// now(), last(), go(n): where it is, where it ends, how it moves. shown(): is it still to be seen? turned(playing) is told.
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
