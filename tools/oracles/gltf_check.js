// Judges glTF files by Khronos' validator and prints one list: {"file", "messages": [{"severity", "code", "message"}]}.
// The folder of the validator is the first argument, the files are the others. 0 errors, 1 warnings, 2 information.
"use strict";
const fs = require("fs");
const path = require("path");
const validator = require(path.join(process.argv[2], "node_modules", "gltf-validator"));

Promise.all(
  process.argv.slice(3).map((file) =>
    validator
      .validateBytes(new Uint8Array(fs.readFileSync(file)), { uri: path.basename(file), maxIssues: 100 })
      .then((report) => ({ file, messages: report.issues.messages, info: report.info }))
  )
).then((reports) => console.log(JSON.stringify(reports)));
