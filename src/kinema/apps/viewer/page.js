// Runs in the browser before the page's own code: draws cheaply where there is no GPU, tells how fast it draws, and
// shows in the tree what is selected.
(() => {
  const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;
  const WARNING_STAYS = 6000; // ms
  const makeContext = HTMLCanvasElement.prototype.getContext;

  function drawnBySoftware() {
    const gl = makeContext.call(document.createElement("canvas"), "webgl2");
    if (!gl) return false;
    const names = gl.getExtension("WEBGL_debug_renderer_info");
    const name = gl.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
    gl.getExtension("WEBGL_lose_context")?.loseContext();
    return SOFTWARE.test(String(name));
  }

  const software = drawnBySoftware();
  if (software && !window.kinemaSmooth) {
    // four samples for each pixel take a CPU as long as all the rest of a frame
    HTMLCanvasElement.prototype.getContext = function (kind, wishes) {
      const gl = String(kind).startsWith("webgl");
      return makeContext.call(this, kind, gl ? { ...wishes, antialias: false } : wishes);
    };
    // the page's warning about software covers what is to be seen; the panel says the same
    const close = setInterval(() => {
      for (const box of document.querySelectorAll(".mantine-Notification-root")) {
        if (!box.textContent.startsWith("Software WebGL")) continue;
        clearInterval(close);
        setTimeout(() => box.querySelector("button")?.click(), WARNING_STAYS);
      }
    }, 1000);
  }

  // Where a CPU draws, a frame is drawn only when something has come that it would show, or somebody touches the page;
  // the library would draw on and on, and each such frame is one less of those that move.
  const INPUT_LASTS = 600, STREAM_LASTS = 1000, LONGEST = 120; // ms
  let touched = 0, came = -Infinity, ran = 0, spare = 0;
  const waits = () => {
    const now = performance.now();
    if (window.__viserMutable?.messageQueue.length) came = now;
    else if (now - touched > INPUT_LASTS && now - came < STREAM_LASTS && now - ran < LONGEST) { spare++; return true; }
    ran = now;
    return false;
  };
  if (software) {
    for (const kind of ["pointerdown", "pointermove", "wheel", "keydown", "resize"])
      window.addEventListener(kind, () => { touched = performance.now(); }, { capture: true, passive: true });
    const ask = window.requestAnimationFrame.bind(window), cancel = window.cancelAnimationFrame.bind(window);
    const asked = new Map(); // what the page knows a wish by, and what the browser knows it by
    let last = 0, judged = null, waiting = false;
    window.requestAnimationFrame = (callback) => {
      const mine = ++last;
      const frame = (time) => {
        if (time !== judged) { judged = time; waiting = waits(); } // all wishes for one frame are treated alike
        if (waiting) { asked.set(mine, ask(frame)); return; }
        asked.delete(mine);
        callback(time);
      };
      asked.set(mine, ask(frame));
      return mine;
    };
    window.cancelAnimationFrame = (mine) => { cancel(asked.get(mine)); asked.delete(mine); };
  }

  // And it is drawn with fewer pixels while drawing is too slow, with all of them once nothing moves; where what moves
  // comes slowly, frames are waited for, and fewer pixels would not help.
  const FEWEST = 0.5, STEP = 0.8, WANTED = 33, SPARE = 38, AGAIN = 20; // shares; frames/s; seconds
  let share = 1, given = null, since = 0;
  const sharpen = (drawn) => {
    const settings = window.__viserTestpoints?.devSettings;
    if (!settings || settings.get().fixedDpr !== given) return; // the user has chosen
    const moves = performance.now() - came < STREAM_LASTS;
    const busy = spare < drawn; // else most chances to draw were for nothing
    since++;
    spare = 0;
    if (moves && busy && drawn < WANTED && share > FEWEST) { share = Math.max(FEWEST, share * STEP); since = 0; }
    if (moves && drawn > SPARE && share < 1 && since > AGAIN) { share = Math.min(1, share / STEP); since = 0; }
    given = (moves ? share : 1) * window.devicePixelRatio;
    settings.set({ fixedDpr: given });
  };

  // what is typed into a list of choices searches it, instead of being appended to the choice
  window.addEventListener("focusin", (event) => { if (event.target.getAttribute?.("role") === "combobox") event.target.select(); });

  // what was selected in the picture is brought to sight in the tree
  let revealed = "";
  setInterval(() => {
    const wanted = document.getElementById("kinema-selected")?.dataset.part ?? "";
    const part = document.getElementById(wanted);
    if (wanted === revealed || (wanted && !part)) return;
    revealed = wanted;
    for (let above = part?.parentElement; above; above = above.parentElement)
      if (above.tagName === "DETAILS") above.open = true;
    part?.scrollIntoView({ block: "nearest" });
  }, 250);

  // Driving: keys, gamepads and the pad of the panel command a velocity, which is told while it lasts.
  const KEYS = {
    KeyW: [0, 1], ArrowUp: [0, 1], KeyS: [0, -1], ArrowDown: [0, -1], KeyQ: [1, 1], KeyE: [1, -1], KeyR: [2, 1], KeyF: [2, -1],
    KeyA: [3, 1], ArrowLeft: [3, 1], KeyD: [3, -1], ArrowRight: [3, -1],
  };
  const STICKS = [[1, 0], [0, 1], [3, 2], [2, 3]], DEAD_ZONE = 0.12; // axis of a standard gamepad, part of the command
  const held = new Set();
  let pad = [0, 0], moved = false;
  const driving = () => document.getElementById("kinema-drive") !== null;
  const typing = (event) => event.target.closest?.("input, textarea, [contenteditable='true']");
  const knob = () => document.querySelector("#kinema-pad > div");
  const pushPad = (event) => {
    const box = document.getElementById("kinema-pad").getBoundingClientRect(), radius = box.width / 2;
    const x = (event.clientX - box.left) / radius - 1, y = (event.clientY - box.top) / radius - 1;
    const size = Math.max(1, Math.hypot(x, y));
    pad = [-y / size, -x / size];
    knob().style.transform = `translate(${(x / size) * 30}px, ${(y / size) * 30}px)`;
  };
  const letPadGo = () => { pad = [0, 0]; if (knob()) knob().style.transform = ""; };
  window.addEventListener("keydown", (event) => {
    if (!driving() || !(event.code in KEYS) || event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
    held.add(event.code);
    event.preventDefault();
    event.stopImmediatePropagation(); // the library would move the camera
  }, { capture: true });
  window.addEventListener("keyup", (event) => held.delete(event.code), { capture: true });
  window.addEventListener("blur", () => { held.clear(); letPadGo(); });
  window.addEventListener("pointerdown", (event) => {
    if (event.target.id !== "kinema-pad") return;
    event.target.setPointerCapture(event.pointerId);
    pushPad(event);
    event.target.onpointermove = pushPad;
    event.target.onpointerup = event.target.onpointercancel = (end) => { end.target.onpointermove = null; letPadGo(); };
  }, { capture: true });
  setInterval(() => {
    const command = [pad[0], 0, 0, pad[1]];
    for (const key of held) command[KEYS[key][0]] += KEYS[key][1];
    for (const gamepad of navigator.getGamepads?.() ?? [])
      for (const [axis, part] of gamepad ? STICKS.map(([a, p]) => [gamepad.axes[a] ?? 0, p]) : [])
        if (Math.abs(axis) > DEAD_ZONE) command[part] -= axis; // sticks count right and down
    const moves = driving() && command.some((x) => x !== 0);
    if (moves || moved) fetch(`/kinema/drive?command=${command.map((x) => (moves ? x : 0).toFixed(3)).join(",")}`).catch(() => {});
    moved = moves;
  }, 50);

  let frames = 0, last = null, began = performance.now();
  const clear = WebGL2RenderingContext.prototype.clear;
  WebGL2RenderingContext.prototype.clear = function (mask) {
    const now = document.timeline.currentTime; // the same for all that is done for one frame
    if (now !== last) frames++;
    last = now;
    return clear.call(this, mask);
  };
  setInterval(() => {
    const seconds = (performance.now() - began) / 1000;
    const drawn = frames / seconds;
    frames = 0;
    began = performance.now();
    if (software && !window.kinemaSmooth) sharpen(drawn);
    if (!document.hidden && drawn > 0)
      fetch(`/kinema/pace?drawn=${drawn.toFixed(2)}&software=${software ? 1 : 0}`).catch(() => {});
  }, 1000);
})();
