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
    if (!document.hidden && drawn > 0)
      fetch(`/kinema/pace?drawn=${drawn.toFixed(2)}&software=${software ? 1 : 0}`).catch(() => {});
  }, 1000);
})();
