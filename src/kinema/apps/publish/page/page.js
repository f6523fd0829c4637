/* Page of a simulation that runs in the browser: a WebAssembly module in real time, drawn by three.js.

   `window.kinema` is the running page: simulation, play(), pause(), reset(), step(n), measure(seconds). */

// --------------------------------------------------------------------------------------------------------------- loading

/* Content of a file beside the page: fetched, or from embedded.js where the page was opened from a folder. */
async function readFile(name) {
  if (location.protocol !== "file:") {
    const response = await fetch(name).catch(() => null);
    if (response && response.ok) return response.arrayBuffer();
  }
  if (!window.kinemaFiles) {
    await new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = "embedded.js";
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${name} and embedded.js cannot be read`));
      document.head.append(script);
    });
  }
  return decoded(window.kinemaFiles[name]);
}

/* Bytes of a text in base64. */
function decoded(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}

// ---------------------------------------------------------------------------------------------------------------- vectors

const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const subtract = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const scaled = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

/* Vector rotated by a quaternion (w, x, y, z). */
function rotate(q, v) {
  const u = [q[1], q[2], q[3]];
  const t = scaled(cross(u, v), 2);
  return add(add(v, scaled(t, q[0])), cross(u, t));
}

/* Vector rotated by the inverse of a quaternion. */
const rotateBack = (q, v) => rotate([q[0], -q[1], -q[2], -q[3]], v);

// --------------------------------------------------------------------------------------------------------------- dragging

const STIFFNESS_PER_MASS = 120; // 1/s2
const MIN_MASS_SHARE = 0.1; // of the mass of all links: a robot is lifted by a foot
const MAX_MASS_RATIO = 10; // of that mass to the effective one: forces held for a step are stable
const LED_FACTOR = 8; // of the stiffness where position control damps the motion

/* Spring between a point of a link and the pointer, critically damped for the effective mass of the point. */
class Spring {
  constructor(page, link, point) {
    this.page = page;
    this.link = link;
    this.local = rotateBack(page.quaternion(link), subtract(point, page.position(link)));
    this.target = point;
    this.last = point;
    const { masses } = page.settings.links;
    const total = masses.reduce((sum, mass) => sum + mass, 0);
    const mass = this.effectiveMass(total);
    this.canMove = mass < 1e6 * Math.max(total, 1e-9);
    const isLed = page.settings.links.followers[link].length > 0;
    this.stiffness = STIFFNESS_PER_MASS * (isLed ? LED_FACTOR : 1);
    this.stiffness *= Math.min(Math.max(mass, MIN_MASS_SHARE * total), MAX_MASS_RATIO * mass);
    this.damping = 2 * Math.sqrt(this.stiffness * mass);
  }

  get point() {
    return add(this.page.position(this.link), rotate(this.page.quaternion(this.link), this.local));
  }

  /* 3 / tr(inverse mass) of the point with contacts and joint control: from its motion in a step with and without a force. */
  effectiveMass(total) {
    const { simulation } = this.page;
    const state = simulation.state.data.slice();
    const time = simulation.time;
    const force = 10 * Math.max(total, 1e-6);
    const moved = (direction) => {
      simulation.state.data.set(state);
      if (direction) this.push(scaled(direction, force), this.point);
      simulation.step();
      simulation.observe();
      const point = this.point;
      simulation.state.data.set(state);
      simulation.observe();
      return point;
    };
    const free = moved(null);
    let mobility = 0;
    for (let axis = 0; axis < 3; axis++) {
      const direction = [0, 0, 0];
      direction[axis] = 1;
      mobility += Math.max(moved(direction)[axis] - free[axis], 0);
    }
    simulation.time = time;
    return (3 * force * simulation.library.constants.DT ** 2) / Math.max(mobility, 1e-300);
  }

  /* Set the force on the link for the next step, and its torque about the centre of mass. */
  push(force, point) {
    const { page, link } = this;
    const centre = add(page.position(link), rotate(page.quaternion(link), page.settings.links.centers[link]));
    const torque = cross(subtract(point, centre), force);
    page.simulation.state.cfrc_applied_vel.set(force, 3 * link);
    page.simulation.state.cfrc_applied_ang.set(torque, 3 * link);
  }

  /* Set the force of the spring for the next step; the last one was `dt` ago. Held joints take their present positions as
     targets, so that the robot stays where it is led. */
  apply(dt) {
    const { state, control } = this.page.simulation;
    for (const [dof, q] of this.page.settings.links.followers[this.link]) control.command[dof] = state.qpos[q];
    this.page.simulation.observe();
    const point = this.point;
    const velocity = scaled(subtract(point, this.last), 1 / dt);
    this.last = point;
    const pull = scaled(subtract(this.target, point), this.stiffness);
    this.push(subtract(pull, scaled(velocity, this.damping)), point);
  }

  release() {
    this.page.simulation.state.cfrc_applied_vel.fill(0, 3 * this.link, 3 * this.link + 3);
    this.page.simulation.state.cfrc_applied_ang.fill(0, 3 * this.link, 3 * this.link + 3);
  }
}

// ----------------------------------------------------------------------------------------------------------------- policy

/* Multilayer perceptron with ELU activations, and the observations and actions of its task. */
class PagePolicy {
  constructor(page, settings) {
    this.page = page;
    this.settings = settings;
    this.layers = settings.layers.map((layer) => ({
      weights: new Float32Array(decoded(layer.weights)),
      bias: new Float32Array(decoded(layer.bias)),
    }));
    this.commands = {};
    for (const [name, sliders] of Object.entries(settings.commands)) {
      this.commands[name] = sliders.map((slider) => slider.value);
    }
    this.reset();
  }

  reset() {
    this.action = new Float32Array(this.layers[this.layers.length - 1].bias.length);
    this.targets = this.settings.actions.map(() => null);
  }

  evaluate(observations) {
    let values = Float32Array.from(observations);
    this.layers.forEach(({ weights, bias }, layer) => {
      const next = Float32Array.from(bias);
      for (let row = 0; row < next.length; row++) {
        let sum = 0;
        for (let column = 0; column < values.length; column++) sum += weights[row * values.length + column] * values[column];
        next[row] += sum;
        if (layer < this.layers.length - 1 && next[row] < 0) next[row] = Math.expm1(next[row]);
      }
      values = next;
    });
    return values;
  }

  observe() {
    this.page.simulation.observe();
    return this.settings.observations.flatMap((term) => {
      const values = this.term(term).map((value) => (term.clip ? Math.min(Math.max(value, term.clip[0]), term.clip[1]) : value));
      return values.map((value, i) => value * (Array.isArray(term.scale) ? term.scale[i] : term.scale));
    });
  }

  term(term) {
    const { page } = this;
    const { qpos, vel } = page.simulation.state;
    switch (term.kind) {
      case "joint_pos": return term.qs.map((q) => qpos[q]);
      case "joint_pos_rel": return term.qs.map((q, i) => qpos[q] - term.default[i]);
      case "joint_vel": return term.dofs.map((dof) => vel[dof]);
      case "joint_sin_cos": return [...term.qs.map((q) => Math.sin(qpos[q])), ...term.qs.map((q) => Math.cos(qpos[q]))];
      case "link_pos": return page.position(term.link);
      case "base_lin_vel": return rotateBack(page.quaternion(term.link), Array.from(vel.slice(term.dof, term.dof + 3)));
      case "base_ang_vel": return Array.from(vel.slice(term.dof + 3, term.dof + 6));
      case "projected_gravity": return rotateBack(page.quaternion(term.link), [0, 0, -1]);
      case "last_action": return Array.from(this.action);
      case "generated_commands": return this.commands[term.command];
      default: throw new Error(`observation ${term.kind}`);
    }
  }

  /* Compute an action and apply it to the inputs of the simulation. */
  act() {
    this.action = this.evaluate(this.observe());
    const { control, state } = this.page.simulation;
    let start = 0;
    this.settings.actions.forEach((term, k) => {
      const wanted = Array.from(this.action.slice(start, start + term.count), (value, i) => term.scale * value);
      start += term.count;
      if (term.kind === "actuators") {
        const { ctrl } = control;
        wanted.forEach((value, i) => { ctrl[term.actuators[i]] = term.offset[i] + value; });
        return;
      }
      const present = term.qs.map((q) => state.qpos[q]);
      const origin = { positions: term.offset, relative: present, increments: this.targets[k] || present }[term.kind];
      this.targets[k] = wanted.map((value, i) => Math.min(Math.max(origin[i] + value, term.lower[i]), term.upper[i]));
      const { command } = control;
      this.targets[k].forEach((value, i) => { command[term.dofs[i]] = value; });
    });
  }
}

// -------------------------------------------------------------------------------------------------------------- simulating

const MAX_STEP_SHARE = 0.7; // of the time between frames that steps may take
const MIN_STEP_TIME = 8; // ms
const MAX_ELAPSED = 500; // ms; a page in the background stands still
const FACTOR_FRAMES = 30; // over which the real-time factor is an average

/* The simulation with its inputs, in real time. */
class Page {
  constructor(settings, library) {
    this.settings = settings;
    this.library = library;
    this.simulation = library.createSimulation();
    this.simulation.observe();
    this.playing = true;
    this.speed = 1;
    this.owed = 0;
    this.realTimeFactor = 0;
    this.window = []; // real and simulated time of the last frames [ms]
    this.spring = null;
    this.nSteps = 0;
    this.policy = settings.policy ? new PagePolicy(this, settings.policy) : null;
    this.policyActs = this.policy !== null;
    this.onReset = () => {};
  }

  get failed() {
    return this.simulation.state.error[0] !== 0;
  }

  position(link) {
    return Array.from(this.simulation.observation.pos.subarray(3 * link, 3 * link + 3));
  }

  quaternion(link) {
    return Array.from(this.simulation.observation.quat.subarray(4 * link, 4 * link + 4));
  }

  play() {
    this.playing = true;
  }

  pause() {
    this.playing = false;
  }

  /* Initial state, or that of a keyframe. */
  reset(keyframe = "") {
    if (this.spring) this.drop();
    this.simulation.reset();
    for (const [array, values] of Object.entries(this.settings.keyframes[keyframe] || {})) {
      const struct = array in this.simulation.control ? this.simulation.control : this.simulation.state;
      struct[array].set(values);
    }
    this.nSteps = this.owed = 0;
    if (this.policy) this.policy.reset();
    this.simulation.observe();
    this.onReset();
  }

  step(count = 1) {
    const { DT: dt } = this.library.constants;
    if (!this.spring && !this.policyActs) {
      this.simulation.step(count);
      this.nSteps += count;
    } else {
      for (let i = 0; i < count; i++) {
        if (this.policyActs && this.nSteps % this.settings.policy.decimation === 0) this.policy.act();
        if (this.spring) this.spring.apply(dt);
        this.simulation.step();
        this.nSteps += 1;
      }
    }
    this.simulation.observe();
  }

  /* Grab a link at a point [m]; false if no force moves it. */
  grab(link, point) {
    const spring = new Spring(this, link, point);
    if (spring.canMove) this.spring = spring;
    return spring.canMove;
  }

  drop() {
    if (this.spring) this.spring.release();
    this.spring = null;
  }

  /* Advance by the time between two frames [ms], in as much computing time as there is. */
  advance(elapsed) {
    if (!this.playing || this.failed) {
      this.owed = 0;
      return;
    }
    const dt = this.library.constants.DT;
    const time = Math.min(elapsed, MAX_ELAPSED);
    this.owed += 1e-3 * time * this.speed;
    const began = performance.now();
    const limit = Math.max(MIN_STEP_TIME, MAX_STEP_SHARE * time);
    let done = 0;
    while (this.owed >= dt && performance.now() - began < limit) {
      const count = Math.min(Math.floor(this.owed / dt + 1e-9), 4);
      this.step(count);
      this.owed -= count * dt;
      done += count;
    }
    if (this.owed >= dt) this.owed = 0; // the computer is too slow: time is lost
    this.window.push([elapsed, 1e3 * done * dt]);
    if (this.window.length > FACTOR_FRAMES) this.window.shift();
    const [real, simulated] = this.window.reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
    this.realTimeFactor = simulated / Math.max(real, 1e-3);
  }

  /* Real-time factor without drawing, measured for some seconds; the state is restored. */
  measure(seconds = 0.5) {
    const state = this.simulation.state.data.slice();
    const { time } = this.simulation;
    const began = performance.now();
    let steps = 0;
    for (; performance.now() - began < 1e3 * seconds; steps += 5) this.simulation.step(5);
    const factor = (1e3 * steps * this.library.constants.DT) / (performance.now() - began);
    this.simulation.state.data.set(state);
    this.simulation.time = time;
    this.simulation.observe();
    return factor;
  }
}

// ----------------------------------------------------------------------------------------------------------------- drawing

const SLOW_FRAME = 50; // ms: without shadows and at a lower resolution beyond
const SOFTWARE = /swiftshader|llvmpipe|software|basic render/i; // renderers without a GPU
const FLOOR_SIZE = 60; // m
const PANEL_WIDTH = 312; // pixels that the panel covers
const PANEL_BELOW = 640; // width of pages up to which it is below the view

/* Material without reflections, which takes less time without a GPU. */
function plainMaterial(material) {
  const { color, map, vertexColors, transparent, opacity, side, emissive } = material;
  return new THREE.MeshLambertMaterial({ color, map, vertexColors, transparent, opacity, side, emissive });
}

/* Name of the renderer of WebGL, where the browser tells it. */
function rendererName() {
  const context = document.createElement("canvas").getContext("webgl");
  const extension = context && context.getExtension("WEBGL_debug_renderer_info");
  const name = extension ? String(context.getParameter(extension.UNMASKED_RENDERER_WEBGL)) : "";
  const loss = context && context.getExtension("WEBGL_lose_context");
  if (loss) loss.loseContext();
  return name;
}

/* The picture: links by glTF nodes, floor, lights, camera. */
class View {
  constructor(page, canvas) {
    this.page = page;
    this.canvas = canvas;
    this.isSoftware = SOFTWARE.test(rendererName());
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: !this.isSoftware });
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, this.isSoftware ? 1 : 2));
    this.renderer.shadowMap.enabled = !this.isSoftware;
    this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.scene = new THREE.Scene();
    this.scene.background = new THREE.Color(0xe9eef3);
    this.camera = new THREE.PerspectiveCamera(40, 1, 0.005, 500);
    this.camera.up.set(0, 0, 1);
    this.orbit = new THREE.OrbitControls(this.camera, canvas);
    this.orbit.enableDamping = true;
    this.orbit.maxPolarAngle = 0.55 * Math.PI;
    this.links = []; // that can be grabbed
    this.posed = []; // all that move with a link
    this.floors = [];
    this.nSlow = 0;
    this.addPullLine();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.resize();
  }

  addPullLine() {
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(6), 3));
    this.line = new THREE.Line(geometry, new THREE.LineBasicMaterial({ color: 0xd4351c, depthTest: false }));
    this.line.frustumCulled = false;
    this.line.renderOrder = 1;
    this.line.visible = false;
    this.scene.add(this.line);
  }

  /* Take the nodes of a glTF file: `world`, and links by their index. */
  setModel(gltf) {
    for (const node of [...gltf.scene.children]) {
      node.traverse((part) => {
        part.castShadow = part.receiveShadow = Boolean(part.isMesh);
        if (part.isMesh && this.isSoftware) part.material = plainMaterial(part.material);
      });
      if (node.name !== "world") {
        node.userData.link = Number(node.name);
        this.links.push(node);
        this.posed.push(node);
      }
      this.scene.add(node);
    }
    this.update();
    const box = new THREE.Box3();
    const { moving } = this.page.settings.links;
    for (const link of this.links) if (moving[link.userData.link]) box.expandByObject(link);
    if (box.isEmpty()) box.expandByObject(gltf.scene);
    this.frame(box);
    this.addLights();
    const { planes } = this.page.settings;
    for (const plane of planes) this.addFloor(plane);
    const below = new THREE.Box3();
    for (const node of gltf.scene.children.concat(this.links)) below.expandByObject(node);
    if (!planes.length) this.addFloor({ link: -1, pos: [0, 0, below.min.z - 1e-3], quat: [1, 0, 0, 0] });
  }

  /* Put the camera where it sees a box. */
  frame(box) {
    this.radius = Math.max(0.5 * box.getSize(new THREE.Vector3()).length(), 0.05);
    this.home = box.getCenter(new THREE.Vector3());
    const distance = (1.5 * this.radius) / Math.sin(0.5 * THREE_DEGREE * this.camera.fov);
    this.orbit.target.copy(this.home);
    this.camera.position.copy(this.home).add(new THREE.Vector3(0.8, -0.95, 0.5).normalize().multiplyScalar(distance));
    this.camera.near = 0.01 * this.radius;
    this.camera.far = 200 * this.radius + 100;
    this.camera.updateProjectionMatrix();
    this.orbit.update();
    this.scene.fog = new THREE.Fog(0xe9eef3, 8 * this.radius, 30 * this.radius);
  }

  addLights() {
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x9aa4ae, 1.6));
    const sun = new THREE.DirectionalLight(0xffffff, 2.2);
    const r = 3 * this.radius;
    sun.position.copy(this.home).add(new THREE.Vector3(-0.6 * r, -1.1 * r, 2.2 * r));
    sun.target.position.copy(this.home);
    sun.castShadow = true;
    sun.shadow.mapSize.set(2048, 2048);
    Object.assign(sun.shadow.camera, { left: -r, right: r, top: r, bottom: -r, near: 0.1 * r, far: 6 * r });
    sun.shadow.normalBias = 0.01 * this.radius;
    this.sun = sun;
    this.scene.add(sun, sun.target);
  }

  addFloor(plane) {
    const decade = 10 ** Math.floor(Math.log10(this.radius));
    const cell = 0.2 * decade * (this.radius < 2 * decade ? 1 : this.radius < 5 * decade ? 2.5 : 5);
    const floor = new THREE.Group();
    const surface = new THREE.Mesh(
      new THREE.PlaneGeometry(FLOOR_SIZE, FLOOR_SIZE),
      new THREE.MeshLambertMaterial({ color: 0xd9dfe5, polygonOffset: true, polygonOffsetFactor: 4, polygonOffsetUnits: 4 }),
    );
    surface.receiveShadow = true;
    const grid = new THREE.GridHelper(120 * cell, 120, 0x9aa6b2, 0xbcc6cf);
    grid.rotation.x = 0.5 * Math.PI;
    grid.position.z = 0.001 * this.radius;
    floor.add(surface, grid);
    floor.position.fromArray(plane.pos);
    const [w, x, y, z] = plane.quat;
    floor.quaternion.set(x, y, z, w);
    floor.userData.period = 10 * cell;
    this.floors.push(floor);
    const frame = new THREE.Group();
    frame.add(floor);
    this.scene.add(frame);
    if (plane.link >= 0) {
      frame.userData.link = plane.link;
      this.posed.push(frame);
    }
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    this.renderer.setSize(width, height, false);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.camera.aspect = width / Math.max(height, 1);
    const covered = width > PANEL_BELOW && !document.body.classList.contains("bare") ? PANEL_WIDTH : 0;
    this.camera.setViewOffset(width, height, 0.5 * covered, 0, width, height);
    this.camera.updateProjectionMatrix();
  }

  /* Take the poses of the links from the simulation. */
  update() {
    const { pos, quat } = this.page.simulation.observation;
    for (const node of this.posed) {
      const i = node.userData.link;
      node.position.set(pos[3 * i], pos[3 * i + 1], pos[3 * i + 2]);
      node.quaternion.set(quat[4 * i + 1], quat[4 * i + 2], quat[4 * i + 3], quat[4 * i]);
    }
    this.follow();
    const { spring } = this.page;
    this.line.visible = spring !== null;
    if (spring) {
      const ends = this.line.geometry.getAttribute("position");
      ends.array.set([...spring.point, ...spring.target]);
      ends.needsUpdate = true;
    }
  }

  /* Move camera and light along with a robot that a policy drives. */
  follow() {
    if (!this.page.policy || !this.home) return;
    const place = this.page.position(this.followedLink());
    const moved = new THREE.Vector3(place[0], place[1], this.home.z).sub(this.home);
    this.home.add(moved);
    for (const point of [this.orbit.target, this.camera.position, this.sun.position, this.sun.target.position]) {
      point.add(moved);
    }
    for (const floor of this.floors) { // endless
      const { period } = floor.userData;
      floor.position.setX(period * Math.round(this.home.x / period)).setY(period * Math.round(this.home.y / period));
    }
  }

  followedLink() {
    const term = this.page.settings.policy.observations.find((one) => "link" in one);
    return term ? term.link : 0;
  }

  draw() {
    this.orbit.update();
    this.renderer.render(this.scene, this.camera);
  }

  /* Draw less where several frames have taken long. */
  adapt(elapsed) {
    this.nSlow = elapsed > SLOW_FRAME && elapsed < MAX_ELAPSED ? this.nSlow + 1 : Math.max(this.nSlow - 1, 0);
    if (this.nSlow < 6) return;
    this.nSlow = 0;
    if (this.renderer.shadowMap.enabled) {
      this.renderer.shadowMap.enabled = false;
      this.scene.traverse((part) => {
        if (part.material) part.material.needsUpdate = true;
      });
    } else if (this.renderer.getPixelRatio() > 0.6) {
      this.renderer.setPixelRatio(0.8 * this.renderer.getPixelRatio());
    }
  }

  ray(event) {
    const rectangle = this.canvas.getBoundingClientRect();
    const place = new THREE.Vector2(
      (2 * (event.clientX - rectangle.left)) / rectangle.width - 1,
      1 - (2 * (event.clientY - rectangle.top)) / rectangle.height,
    );
    const ray = new THREE.Raycaster();
    ray.setFromCamera(place, this.camera);
    return ray;
  }

  /* Link and point under the pointer; null for none. */
  pick(event) {
    const [hit] = this.ray(event).intersectObjects(this.links, true);
    if (!hit) return null;
    let node = hit.object;
    while (!("link" in node.userData)) node = node.parent;
    return { link: node.userData.link, point: hit.point };
  }
}

const THREE_DEGREE = Math.PI / 180;

/* Pulling at links with the pointer. */
function connectPointer(page, view) {
  const { canvas } = view;
  const plane = new THREE.Plane();
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.isPrimary === false) return;
    const hit = view.pick(event);
    if (!hit || !page.settings.links.moving[hit.link] || !page.grab(hit.link, hit.point.toArray())) return;
    view.orbit.enabled = false;
    plane.setFromNormalAndCoplanarPoint(view.camera.getWorldDirection(new THREE.Vector3()), hit.point);
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
    event.stopImmediatePropagation();
  }, { capture: true });
  canvas.addEventListener("pointermove", (event) => {
    if (page.spring) {
      const point = view.ray(event).ray.intersectPlane(plane, new THREE.Vector3());
      if (point) page.spring.target = point.toArray();
    } else if (!event.buttons && event.pointerType === "mouse") {
      const hit = view.pick(event);
      canvas.classList.toggle("over", hit !== null && page.settings.links.moving[hit.link]);
    }
  });
  const end = () => {
    page.drop();
    view.orbit.enabled = true;
    canvas.classList.remove("dragging");
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
}

// ------------------------------------------------------------------------------------------------------------------- plots

const N_SAMPLES = 400;
const COLORS = ["#1769d2", "#d4351c", "#00703c", "#b58105", "#6f3fb5", "#0b8a8f", "#c2348b", "#5b6570"];

/* Lines of the last samples of a quantity. */
class Plot {
  constructor(page, canvas, select) {
    this.page = page;
    this.canvas = canvas;
    this.select = select;
    const { settings, library } = page;
    const dofs = settings.dofNames;
    this.quantities = {
      "joint velocities": [() => page.simulation.state.vel, dofs],
      coordinates: [() => page.simulation.state.qpos, []],
      contacts: [() => page.simulation.state.n_contacts, []],
    };
    const actuators = library.names.actuator;
    if (actuators.length) this.quantities.controls = [() => page.simulation.control.ctrl, actuators];
    (library.names.sensor || []).forEach((name, i) => {
      const [start, end] = library.tables.sensor_start.slice(i, i + 2);
      this.quantities[`sensor ${name}`] = [() => page.simulation.observation.sensordata.subarray(start, end), []];
    });
    for (const name of Object.keys(this.quantities)) select.append(new Option(name));
    select.addEventListener("change", () => this.clear());
    this.clear();
  }

  clear() {
    this.samples = [];
  }

  get isShown() {
    return this.canvas.closest("details").open;
  }

  record() {
    if (!this.isShown) return;
    const [read] = this.quantities[this.select.value];
    this.samples.push([this.page.simulation.time, ...read().slice(0, COLORS.length)]);
    if (this.samples.length > N_SAMPLES) this.samples.shift();
  }

  draw() {
    if (!this.isShown || this.samples.length < 2) return;
    const ratio = Math.min(devicePixelRatio, 2);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.canvas.width = ratio * width;
    this.canvas.height = ratio * height;
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    let [low, high] = [Infinity, -Infinity];
    for (const sample of this.samples) {
      for (let k = 1; k < sample.length; k++) {
        low = Math.min(low, sample[k]);
        high = Math.max(high, sample[k]);
      }
    }
    if (!(high - low > 1e-9 * Math.max(Math.abs(high), 1e-6))) [low, high] = [low - 1, high + 1];
    const [first, last] = [this.samples[0][0], this.samples[this.samples.length - 1][0]];
    const x = (time) => (width * (time - first)) / Math.max(last - first, 1e-9);
    const y = (value) => 4 + ((height - 20) * (high - value)) / (high - low);
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = context.strokeStyle = "#6b7785";
    context.fillText(high.toPrecision(3), 2, 12);
    context.fillText(low.toPrecision(3), 2, height - 20);
    for (let k = 1; k < this.samples[0].length; k++) {
      context.strokeStyle = COLORS[k - 1];
      context.beginPath();
      for (const sample of this.samples) context.lineTo(x(sample[0]), y(sample[k]));
      context.stroke();
    }
    this.drawNames(context, width, height);
  }

  drawNames(context, width, height) {
    const [, names] = this.quantities[this.select.value];
    let x = 2;
    for (let k = 0; k < Math.min(names.length, this.samples[0].length - 1) && x < width; k++) {
      context.fillStyle = COLORS[k];
      context.fillText(names[k], x, height - 4);
      x += context.measureText(names[k]).width + 8;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------- controls

const element = (id) => document.getElementById(id);

function addSlider(parent, slider, value, onInput) {
  const label = document.createElement("label");
  label.className = "slider";
  const [name, output, input] = ["span", "output", "input"].map((kind) => document.createElement(kind));
  name.textContent = name.title = slider.label;
  Object.assign(input, { type: "range", min: slider.lower, max: slider.upper, step: (slider.upper - slider.lower) / 1000 || 1e-3 });
  const show = (number) => {
    input.value = number;
    output.textContent = Number(number).toFixed(3);
  };
  input.addEventListener("input", () => {
    output.textContent = Number(input.value).toFixed(3);
    onInput(Number(input.value));
  });
  show(value);
  label.append(name, output, input);
  parent.append(label);
  return show;
}

function connectControls(page) {
  const { settings, simulation } = page;
  element("play").addEventListener("click", () => (page.playing ? page.pause() : page.play()));
  element("step").addEventListener("click", () => {
    page.pause();
    page.step();
  });
  element("reset").addEventListener("click", () => page.reset(element("keyframe").value));
  element("speed").addEventListener("change", (event) => { page.speed = Number(event.target.value); });
  const keyframes = Object.keys(settings.keyframes);
  if (keyframes.length) {
    element("keyframe").hidden = false;
    element("keyframe").append(new Option("initial state", ""), ...keyframes.map((name) => new Option(name)));
    element("keyframe").addEventListener("change", (event) => page.reset(event.target.value));
  }
  const shown = settings.controls.map((control) =>
    addSlider(element("sliders"), control, simulation.control[control.array][control.index], (value) => {
      simulation.control[control.array][control.index] = value;
    }));
  page.showControls = () => settings.controls.forEach((control, i) => {
    shown[i](simulation.control[control.array][control.index]);
  });
  page.onReset = page.showControls;
  element("controls").hidden = !shown.length;
  if (page.policy) {
    element("policy").hidden = false;
    element("controls").open = false;
    element("follow").addEventListener("change", (event) => { page.policyActs = event.target.checked; });
    for (const [name, sliders] of Object.entries(settings.policy.commands)) {
      sliders.forEach((slider, i) => addSlider(element("commands"), slider, slider.value, (value) => {
        page.policy.commands[name][i] = value;
      }));
    }
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.tagName !== "BUTTON") {
      event.preventDefault();
      element("play").click();
    }
  });
  element("panel").hidden = false;
}

function showStatus(page) {
  const { simulation } = page;
  element("play").textContent = page.playing ? "Pause" : "Play";
  const contacts = simulation.state.n_contacts[0];
  const factor = page.playing ? `, ${page.realTimeFactor.toFixed(2)} of real time` : ", paused";
  element("status").textContent = `${simulation.time.toFixed(2)} s, ${contacts} contacts${factor}`;
  element("message").textContent = page.failed ? "The simulation has become unstable; reset it." : "";
}

// ------------------------------------------------------------------------------------------------------------------- start

async function main() {
  const settings = window.kinemaSettings;
  const options = new URLSearchParams(location.search);
  if (options.get("panel") === "0") document.body.classList.add("bare");
  const [module, visuals] = await Promise.all(["robot.wasm", "robot.glb"].map(readFile));
  const { instance } = await WebAssembly.instantiate(module, {});
  const page = new Page(settings, new KinemaLibrary(instance, settings.library));
  const view = new View(page, element("view"));
  view.setModel(await new THREE.GLTFLoader().parseAsync(visuals, ""));
  page.view = view;
  if (options.get("play") === "0") page.pause();
  const plot = new Plot(page, element("plot"), element("quantity"));
  connectControls(page);
  connectPointer(page, view);
  let last = null;
  let sinceStatus = 0;
  const frame = (now) => {
    const elapsed = last === null ? 0 : now - last;
    last = now;
    page.advance(elapsed);
    if (page.playing) plot.record();
    view.update();
    view.draw();
    view.adapt(elapsed);
    sinceStatus += elapsed;
    if (sinceStatus > 100) {
      sinceStatus = 0;
      showStatus(page);
      plot.draw();
      if (page.policyActs || page.spring) page.showControls();
    }
    if (page.nSteps && !page.firstMotion) page.firstMotion = performance.now();
    requestAnimationFrame(frame);
  };
  window.kinema = page;
  requestAnimationFrame(frame);
}

main().catch((error) => {
  element("status").textContent = "";
  element("message").textContent = `The page cannot be shown: ${error.message}`;
  throw error;
});
