/* Functions and simulations of a library compiled by Kinema, in the memory of a WebAssembly module.

   Arrays are flat, row by row, in the order that the description (and the C header) lists. Results are copies, except the
   arrays of structs, which are views of the module's memory. */
class KinemaLibrary {
  constructor(instance, description) {
    this.description = description;
    this.exports = instance.exports;
    this.constants = description.constants;
    this.names = description.names;
    this.joints = description.joints;
    this.scalar = description.precision === "single" ? Float32Array : Float64Array;
    this.end = this.exports.__heap_base.value;
    this.tables = {};
    for (const [name, count] of Object.entries(description.tables)) {
      this.tables[name] = this.array(this.exports[`${description.name}_${name}`].value, count).slice();
    }
    for (const [name, parameters] of Object.entries(description.functions)) this.addFunction(name, parameters);
  }

  /* Address of new memory for a number of scalars. */
  allocate(count) {
    const address = (this.end + 15) & ~15;
    this.end = address + Math.max(count, 1) * this.scalar.BYTES_PER_ELEMENT;
    const missing = this.end - this.exports.memory.buffer.byteLength;
    if (missing > 0) this.exports.memory.grow(Math.ceil(missing / 65536));
    return address;
  }

  /* View of scalars in memory; invalid after the next allocation. */
  array(address, count) {
    return new this.scalar(this.exports.memory.buffer, address, count);
  }

  /* Method that takes the inputs of a function of arrays and returns its outputs: one array, or an object by name. */
  addFunction(name, parameters) {
    const compiled = this.exports[`${this.description.name}_${name}`];
    const inputs = parameters.filter((parameter) => parameter.input);
    const outputs = parameters.filter((parameter) => parameter.output);
    const addresses = parameters.map((parameter) => (parameter.kind === "int" ? 0 : this.allocate(parameter.count)));
    this[name] = (...values) => {
      if (values.length !== inputs.length) {
        throw new TypeError(`${name}: expected ${inputs.map((parameter) => parameter.name).join(", ")}`);
      }
      const given = values[Symbol.iterator]();
      const results = {};
      const passed = parameters.map((parameter, i) => {
        if (parameter.kind === "int") return given.next().value;
        if (parameter.input) {
          const value = given.next().value;
          if (value.length !== parameter.count) {
            throw new RangeError(`${name}: ${parameter.name} has ${value.length} values, not ${parameter.count}`);
          }
          this.array(addresses[i], parameter.count).set(value);
        } else {
          this.array(addresses[i], parameter.count).fill(NaN); // stays for links that the function does not have
        }
        return addresses[i];
      });
      compiled(...passed);
      parameters.forEach((parameter, i) => {
        if (parameter.output) results[parameter.name] = this.array(addresses[i], parameter.count).slice();
      });
      return outputs.length === 1 ? results[outputs[0].name] : results;
    };
  }

  /* A simulation with state, inputs and working memory of its own. */
  createSimulation() {
    return new KinemaSimulation(this);
  }
}

/* Memory of a C struct; its members are properties. */
class KinemaStruct {
  constructor(library, name) {
    const members = library.description.structs[name];
    this.library = library;
    this.count = members.reduce((sum, member) => sum + member.count, 0);
    this.address = library.allocate(this.count);
    let start = 0;
    for (const member of members) {
      const offset = start * library.scalar.BYTES_PER_ELEMENT;
      Object.defineProperty(this, member.name, {
        enumerable: true,
        get: () => library.array(this.address + offset, member.count),
        set: (values) => library.array(this.address + offset, member.count).set(values),
      });
      start += member.count;
    }
  }

  /* All scalars, in memory order. */
  get data() {
    return this.library.array(this.address, this.count);
  }
}

/* A simulation: `state` and `control` are structs, `time` is in seconds. */
class KinemaSimulation {
  constructor(library) {
    const create = (name) => new KinemaStruct(library, name);
    this.library = library;
    [this.state, this.control, this.observation, this.workspace] =
      ["state", "control", "observation", "workspace"].map(create);
    this.stepFunction = library.exports[`${library.description.name}_step`];
    this.observeFunction = library.exports[`${library.description.name}_observe`];
    this.reset();
  }

  /* Set state and inputs to their initial values. */
  reset() {
    const { exports, description } = this.library;
    for (const name of ["state", "control"]) {
      const initial = exports[`${description.name}_initial_${name}`].value;
      this[name].data.set(this.library.array(initial, this[name].count));
    }
    this.time = 0;
  }

  /* Advance by n steps. */
  step(n = 1) {
    this.stepFunction(this.state.address, this.control.address, n, this.workspace.address);
    this.time += Math.max(n, 0) * this.library.constants.DT;
  }

  /* Measured quantities of the present state. */
  observe() {
    this.observeFunction(this.state.address, this.control.address, this.observation.address, this.workspace.address);
    return this.observation;
  }
}
