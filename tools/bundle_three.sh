#!/bin/sh
# Bundles the parts of three.js that published pages use into one minified script, with its licence (npm needed).
set -e
VERSION=0.187.0
PAGE=$(cd "$(dirname "$0")/../src/kinema/apps/publish/page" && pwd)
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
cd "$FOLDER"
npm init --yes >/dev/null
npm install --silent "three@$VERSION" esbuild@0.25
cat >entry.js <<'JS'
export {
  Box3, BufferAttribute, BufferGeometry, Color, DirectionalLight, Fog, GridHelper, Group, HemisphereLight, Line,
  LineBasicMaterial, Mesh, MeshLambertMaterial, PCFShadowMap, PerspectiveCamera, Plane, PlaneGeometry, Raycaster, Scene,
  Vector2, Vector3, WebGLRenderer,
} from "three";
export { GLTFLoader } from "three/examples/jsm/loaders/GLTFLoader.js";
export { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
JS
npx esbuild entry.js --bundle --minify --format=iife --global-name=THREE --outfile="$PAGE/three.min.js"
cp node_modules/three/LICENSE "$PAGE/three.LICENSE"
