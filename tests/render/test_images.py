"""Images against rays that are worked out by hand, and light against its own conservation."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kinema.core import CACHE_ENV_VARIABLE, KinemaError, Pose, rpy_to_matrix
from kinema.geometry import Appearance, CornerAttribute, sphere
from kinema.render import (
    IMAGES,
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Instance,
    LightSource,
    PathTracer,
    Renderer,
    RenderScene,
    Sky,
    Surface,
    look_at,
    mesh_geometry,
)
from kinema.render.kernel_launch import launch_over_items
from kinema.runtime import find_device

SIZES = {
    GeometryKind.PLANE: (0.4, 0.3, 0.0),
    GeometryKind.SPHERE: (0.3, 0.0, 0.0),
    GeometryKind.BOX: (0.2, 0.3, 0.1),
    GeometryKind.CAPSULE: (0.15, 0.2, 0.0),
    GeometryKind.CYLINDER: (0.2, 0.25, 0.0),
    GeometryKind.ELLIPSOID: (0.1, 0.2, 0.3),
    GeometryKind.CONE: (0.2, 0.25, 0.0),
}
POSE = Pose(np.array([0.1, -0.05, 0.2]), rpy_to_matrix([0.4, -0.7, 0.3]))
CAMERA = Camera(pose=look_at((1.2, -0.9, 1.0), (0.1, 0.0, 0.2)), fov=0.9)
EDGE = 24


def implicit(kind: GeometryKind, size: tuple[float, float, float], p: np.ndarray) -> np.ndarray:
    """How far outside of a solid a point is, negative inside: another way to say what the shape is."""
    x, y, _ = size
    match kind:
        case GeometryKind.SPHERE:
            return np.linalg.norm(p, axis=-1) - x
        case GeometryKind.BOX:
            return (np.abs(p) - np.array(size)).max(axis=-1)
        case GeometryKind.CAPSULE:
            nearest = p - np.stack([0 * p[..., 0], 0 * p[..., 0], np.clip(p[..., 2], -y, y)], axis=-1)
            return np.linalg.norm(nearest, axis=-1) - x
        case GeometryKind.CYLINDER:
            return np.maximum(np.hypot(p[..., 0], p[..., 1]) - x, np.abs(p[..., 2]) - y)
        case GeometryKind.ELLIPSOID:
            return (np.linalg.norm(p / np.array(size), axis=-1) - 1.0) * min(size)
        case GeometryKind.CONE:
            slope = x / (2 * y)
            return np.maximum(np.hypot(p[..., 0], p[..., 1]) - slope * (y - p[..., 2]), -y - p[..., 2])
        case _:
            raise AssertionError(kind)


def rays(camera: Camera, edge: int = EDGE) -> tuple[np.ndarray, np.ndarray]:
    """Starts and directions of all pixels, in double precision."""
    fx, fy, cx, cy = camera.pixel_intrinsics(edge, edge)
    y, x = np.mgrid[:edge, :edge] + 0.5
    u, v = (x - cx) / fx, -(y - cy) / fy
    start, d = np.zeros((edge, edge, 3)), np.stack([0 * u, 0 * u, 0 * u - 1.0], axis=-1)
    if camera.projection == "pinhole":
        d = np.stack([u, v, 0 * u - 1.0], axis=-1)
        d /= np.linalg.norm(d, axis=-1, keepdims=True)
    elif camera.projection == "orthographic":
        start = np.stack([u, v, 0 * u], axis=-1)
    else:
        angle = np.hypot(u, v)
        s = np.sinc(angle / np.pi)
        d = np.stack([u * s, v * s, -np.cos(angle)], axis=-1)
    return camera.pose.position + start @ camera.pose.rotation.T, d @ camera.pose.rotation.T


def march(kind: GeometryKind, size: tuple[float, float, float], o: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Where rays in the shape's frame enter it: the first change of sign on a fine grid, then halved."""
    t = np.linspace(0.0, 4.0, 1601)
    inside = implicit(kind, size, o[..., None, :] + t[:, None] * d[..., None, :]) < 0
    first = inside.argmax(axis=-1)
    low, high = t[np.maximum(first - 1, 0)], t[first]
    for _ in range(40):
        middle = 0.5 * (low + high)
        within = implicit(kind, size, o + middle[..., None] * d) < 0
        low, high = np.where(within, low, middle), np.where(within, middle, high)
    return np.where(inside.any(axis=-1), high, np.inf)


@cache
def images_of(kind: GeometryKind, projection: str = "pinhole") -> dict[str, np.ndarray]:
    """Of one shape alone."""
    camera = Camera(pose=CAMERA.pose, fov=CAMERA.fov, projection=projection, orthographic_height=1.2)
    stage = RenderScene(instances=[Instance(geometry=Geometry(kind, SIZES[kind]), pose=POSE, entity=3, shape=5)])
    placed = DeviceScene(stage, 1, find_device("cpu"))
    placed.update_poses()
    made = Renderer(placed, [camera], (EDGE, EDGE), images=("depth", "normal", "segmentation")).render()
    return {name: image.numpy()[0, 0] for name, image in made.items()}


@pytest.mark.slow("Warp compiles the kernels first")
@pytest.mark.parametrize("kind", [k for k in SIZES if k is not GeometryKind.PLANE])
def test_primitives_are_where_their_formula_says(kind: GeometryKind) -> None:
    """Depth, normal and label of every pixel equal those of a ray that is marched through the solid's formula."""
    images = images_of(kind)
    start, d = rays(CAMERA)
    inverse = POSE.inverse()
    o, local = inverse.apply(start), d @ inverse.rotation.T
    t = march(kind, SIZES[kind], o, local)
    hit = np.isfinite(t)
    forward = -CAMERA.pose.rotation[:, 2]
    depth = t * (d @ forward)
    # a ray that only grazes the shape may pass between two points of the grid
    agree = np.isfinite(images["depth"]) == hit
    assert (~agree).sum() <= 2
    hit &= agree
    assert hit.sum() > 20
    assert np.abs(images["depth"][hit] - depth[hit]).max() < 1e-4
    points, step = o[hit] + t[hit][:, None] * local[hit], 1e-6
    slope = np.stack(
        [implicit(kind, SIZES[kind], points + e) - implicit(kind, SIZES[kind], points - e) for e in step * np.eye(3)],
        axis=-1,
    )
    smooth = np.linalg.norm(slope, axis=-1) > 1e-12
    normals = slope / np.maximum(np.linalg.norm(slope, axis=-1, keepdims=True), 1e-12) @ POSE.rotation.T
    off = np.abs(images["normal"][hit] - normals).max(axis=-1)[smooth]
    assert np.sort(off)[: len(off) - 2].max() < 1e-3  # but for pixels on an edge of the shape
    assert np.median(off) < 1e-4
    assert (images["segmentation"][hit] == [3, -1, 5]).all()
    assert (images["segmentation"][~np.isfinite(images["depth"])] == -1).all()


@pytest.mark.parametrize("projection", ["pinhole", "fisheye", "orthographic"])
def test_projections_see_a_rectangle_where_it_is(projection: str) -> None:
    images = images_of(GeometryKind.PLANE, projection)
    camera = Camera(pose=CAMERA.pose, fov=CAMERA.fov, projection=projection, orthographic_height=1.2)
    start, d = rays(camera)
    inverse = POSE.inverse()
    o, local = inverse.apply(start), d @ inverse.rotation.T
    t = -o[..., 2] / local[..., 2]
    p = o + t[..., None] * local
    hit = (t > 0) & (np.abs(p[..., 0]) < 0.4) & (np.abs(p[..., 1]) < 0.3)
    assert hit.sum() > 20
    assert (np.isfinite(images["depth"]) == hit).all()
    depth = t if projection == "fisheye" else t * (d @ -CAMERA.pose.rotation[:, 2])
    assert np.abs(images["depth"][hit] - depth[hit]).max() < 1e-4
    assert (
        np.abs(images["normal"][hit] - POSE.rotation[:, 2] * -np.sign(d[hit] @ POSE.rotation[:, 2])[:, None]).max()
        < 1e-4
    )


@cache
def mesh_scene() -> tuple[RenderScene, DeviceScene, dict[str, np.ndarray]]:
    """A mesh on a link that moves on, in two environments, with one colour of a face in an image."""
    mesh = sphere(0.3, 12)
    stage = RenderScene(n_links=1, instances=[Instance(geometry=mesh_geometry(mesh), link=0, pose=POSE)])
    placed = DeviceScene(stage, 2, find_device("cpu"), per_env=("color",))
    return stage, placed, {}


def rows(*places: tuple[float, float, float]) -> tuple[object, object]:
    """Where the only link is in each environment, as the simulator gives it."""
    from kinema.scene import link_pose_arrays

    return link_pose_arrays([[Pose.translation(p)] for p in places], "cpu")


def test_meshes_equal_rays_against_every_triangle_and_flow_is_what_moved() -> None:
    """Depth and normals of a mesh are those of the nearest triangle; environments are apart; flow follows the link."""
    stage, placed, _ = mesh_scene()
    renderer = Renderer(placed, [CAMERA], (EDGE, EDGE), images=IMAGES)
    placed.update_poses(*rows((0.0, 0.0, 0.0), (0.0, 0.1, 0.0)))
    renderer.render()
    placed.update_poses(*rows((0.02, 0.0, 0.0), (0.0, 0.1, 0.0)))
    images = {name: image.numpy()[:, 0] for name, image in renderer.render().items()}
    mesh = stage.instances[0].geometry.triangles
    assert mesh is not None
    start, d = rays(CAMERA)
    for env, offset in enumerate(([0.02, 0.0, 0.0], [0.0, 0.1, 0.0])):
        corners = (Pose.translation(offset) @ POSE).apply(mesh.vertices)[mesh.faces]
        t, normal = nearest_triangle(corners, start.reshape(-1, 3), d.reshape(-1, 3))
        t, normal = t.reshape(EDGE, EDGE), normal.reshape(EDGE, EDGE, 3)
        hit = np.isfinite(t)
        assert (np.isfinite(images["depth"][env]) == hit).all()
        assert np.abs(images["depth"][env][hit] - (t * (d @ -CAMERA.pose.rotation[:, 2]))[hit]).max() < 1e-4
        assert np.abs(images["normal"][env][hit] - normal[hit]).max() < 1e-4
        now = start + np.where(hit, t, 1.0)[..., None] * d
        moved = [0.02, 0.0, 0.0] if env == 0 else [0.0, 0.0, 0.0]
        flow = project(now) - project(now - moved)
        assert np.abs(images["flow"][env][hit] - flow[hit]).max() < 2e-3
    state, info = placed.vgeoms_state, placed.vgeoms_info
    assert np.allclose(state.pos.numpy()[0, 0], np.add(POSE.position, [0.02, 0.0, 0.0]), atol=1e-6)
    assert np.allclose(state.quat.numpy()[0, 0], POSE.quaternion, atol=1e-6)
    assert (info.vface_end - info.vface_start == len(mesh.faces)).all()
    assert len(placed.vverts) == len(mesh.vertices) == len(placed.uvs) == len(placed.vnormals)


def nearest_triangle(corners: np.ndarray, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every ray against every triangle, by Möller and Trumbore; normals towards the ray."""
    a, e1, e2 = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    p = np.cross(d[:, None], e2[None])
    det = (e1 * p).sum(axis=-1)
    safe = np.where(np.abs(det) < 1e-14, 1.0, det)
    s = o[:, None] - a[None]
    u = (s * p).sum(axis=-1) / safe
    q = np.cross(s, e1[None])
    v = (d[:, None] * q).sum(axis=-1) / safe
    t = (e2 * q).sum(axis=-1) / safe
    good = (np.abs(det) >= 1e-14) & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0)
    t = np.where(good, t, np.inf)
    face = t.argmin(axis=1)
    normal = np.cross(e1, e2)[face]
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return t.min(axis=1), normal * -np.sign((normal * d).sum(axis=1))[:, None]


def project(points: np.ndarray) -> np.ndarray:
    """Pixels of points in the world."""
    fx, fy, cx, cy = CAMERA.pixel_intrinsics(EDGE, EDGE)
    p = CAMERA.pose.inverse().apply(points)
    return np.stack([cx - fx * p[..., 0] / p[..., 2], cy + fy * p[..., 1] / p[..., 2]], axis=-1)


def test_colours_textures_shadows_and_environments(tmp_path) -> None:
    """A lamp's light on paint is their product; where something is in between there is none; copies may differ."""
    from kinema.render import write_png
    from kinema.render.surfaces import TextureMap

    image = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 0]]], np.uint8)  # row 0 is at the top
    write_png(tmp_path / "four.png", image)
    paint = Surface(color=(0.5, 0.6, 0.8, 1.0), specular=0.0)
    tiles = Surface(
        color=(1.0, 1.0, 1.0, 1.0), specular=0.0, maps={"color": TextureMap(file=str(tmp_path / "four.png"))}
    )
    down = look_at((0.0, 0.0, 5.0), (0.0, 0.0, 0.0))
    stage = RenderScene(
        instances=[
            Instance(geometry=Geometry(GeometryKind.PLANE), surface=paint),
            Instance(
                geometry=Geometry(GeometryKind.PLANE, (0.5, 0.5, 0.0)),
                surface=tiles,
                pose=Pose.translation([1, 0, 0.01]),
            ),
            Instance(
                geometry=Geometry(GeometryKind.BOX, (0.2, 0.2, 0.02)), surface=paint, pose=Pose.translation([-1, 0, 1])
            ),
        ],
        lights=[LightSource(pose=look_at((-1.0, -1.0, 2.0), (-1.0, 0.0, 1.0)), color=(0.5, 0.5, 0.5))],
        sky=Sky(ambient=0.0),
    )
    placed = DeviceScene(stage, 2, find_device("cpu"), per_env=("color",))
    colors = placed.surfaces.color.numpy()
    colors[1, 1] = [0.2, 0.2, 0.2, 1.0]
    placed.surfaces.color.assign(colors)
    placed.update_poses()
    camera = Camera(pose=down, projection="orthographic", orthographic_height=4.0)
    shaded = Renderer(placed, [camera], (40, 40), images=("rgb",)).render()["rgb"].numpy()[:, 0] / 255.0
    lit = 0.5 * math.cos(math.pi / 4)

    def at(env: int, x: float, y: float) -> np.ndarray:
        return shaded[env, int(20 - 10 * y), int(20 + 10 * x)]

    assert at(0, 0.05, -1.45) == pytest.approx(lit * np.array([0.5, 0.6, 0.8]), abs=3e-3)
    assert at(0, -1.0, 1.05) == pytest.approx(np.zeros(3), abs=3e-3)  # behind the box, seen from the lamp
    assert at(1, 0.05, -1.45) == pytest.approx(lit * np.array([0.2, 0.2, 0.2]), abs=3e-3)
    for (x, y), color in {(0.75, 0.25): (1, 0, 0), (1.25, 0.25): (0, 1, 0), (0.75, -0.25): (0, 0, 1)}.items():
        assert at(0, x, y) == pytest.approx(lit * np.array(color), abs=3e-3), (x, y)


@pytest.mark.slow("Warp compiles the kernels first")
@pytest.mark.parametrize(
    "surface",
    [
        Surface(color=(1, 1, 1, 1), specular=0.0),
        Surface(color=(1, 1, 1, 1), specular=0.5, roughness=0.5),
        Surface(color=(1, 1, 1, 1), metallic=1.0, roughness=0.6),
        Surface(color=(1, 1, 1, 1), metallic=1.0, roughness=0.1),
        Surface(color=(1, 1, 1, 1), specular=0.0, clearcoat=1.0, clearcoat_roughness=0.3),
        Surface(color=(1, 1, 1, 1), ior=1.5),
        Surface(color=(1, 1, 1, 0.3), specular=0.0),
    ],
    ids=["paint", "coat", "rough metal", "mirror", "varnish", "glass", "veil"],
)
def test_nothing_is_seen_in_a_white_furnace(surface: Surface) -> None:
    """What keeps all light cannot be told from light that is the same all around, to half a percent."""
    same = (1.0, 1.0, 1.0)
    fine = sphere(0.3, 48)  # where faces and smoothed normals differ, light that would go below the face is lost
    appearance = Appearance(normals=CornerAttribute(fine.vertices / 0.3, fine.faces))
    shapes = [Geometry(GeometryKind.SPHERE, (0.3, 0.0, 0.0)), mesh_geometry(fine, appearance)]
    for shape in shapes[: 1 if surface.ior else 2]:
        stage = RenderScene(
            instances=[Instance(geometry=shape, surface=surface)], sky=Sky(zenith=same, horizon=same, ground=same)
        )
        placed = DeviceScene(stage, 1, find_device("cpu"))
        placed.update_poses()
        camera = Camera(pose=look_at((0.0, -2.0, 0.5), (0.0, 0.0, 0.0)), fov=0.32)
        tracer = PathTracer(placed, [camera], (12, 12), max_bounces=64, indirect_clamp=0.0)
        traced = tracer.trace(384, denoise=False)
        covered = traced.coverage[0, 0] >= (0.0 if surface.ior or surface.color[3] < 1.0 else 0.99)
        assert traced.radiance[0, 0][covered].mean() == pytest.approx(1.0, abs=5e-3)


def test_light_of_a_square_lamp_is_its_form_factor() -> None:
    """A floor under a small square that shines gets the light that the formula says, and half where half is hidden."""
    glow = Surface(color=(0, 0, 0, 1), specular=0.0, emission=(4.0, 2.0, 1.0))
    floor = Surface(color=(0.735, 0.735, 0.735, 1.0), specular=0.0)  # reflects a half
    dark = (0.0, 0.0, 0.0)
    over = Pose(np.array([0.0, 0.0, 1.0]), rpy_to_matrix([math.pi, 0.0, 0.0]))
    stage = RenderScene(
        instances=[
            Instance(geometry=Geometry(GeometryKind.PLANE), surface=floor),
            Instance(geometry=Geometry(GeometryKind.PLANE, (0.1, 0.1, 0.0)), surface=glow, pose=over),
        ],
        sky=Sky(zenith=dark, horizon=dark, ground=dark),
    )
    placed = DeviceScene(stage, 1, find_device("cpu"))
    placed.update_poses()
    camera = Camera(pose=look_at((0.0, -1.0, 0.5), (0.0, 0.0, 0.0)), fov=0.02)
    traced = PathTracer(placed, [camera], (8, 8), indirect_clamp=0.0).trace(256, denoise=False)
    x = 0.1  # the form factor of a square above its middle, as four quarters
    quarter = x / math.sqrt(1 + x * x) * math.atan(x / math.sqrt(1 + x * x)) / math.pi
    expected = 4 * quarter * np.array([4.0, 2.0, 1.0]) * linear(0.735)
    assert traced.radiance[0, 0].mean(axis=(0, 1)) == pytest.approx(expected, rel=0.02)


def linear(c: float) -> float:
    return ((c + 0.055) / 1.055) ** 2.4


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    stage = RenderScene(instances=[Instance(geometry=Geometry(GeometryKind.SPHERE, (1, 1, 1)), link=2)])
    with pytest.raises(KinemaError, match="link index 2"):
        DeviceScene(stage, 1, find_device("cpu"))
    placed = DeviceScene(
        RenderScene(instances=[Instance(geometry=Geometry(GeometryKind.SPHERE, (1, 1, 1)))]), 1, find_device("cpu")
    )
    for cameras, size, images, message in (
        ([], (8, 8), ("rgb",), "at least one camera"),
        ([CAMERA], (0, 8), ("rgb",), "0 x 8"),
        ([CAMERA], (8, 8), ("heat",), "heat"),
        ([Camera(projection="x")], (8, 8), ("rgb",), "projection"),
        ([Camera(link=1)], (8, 8), ("rgb",), "link index 1"),
    ):
        with pytest.raises(KinemaError, match=message):
            Renderer(placed, cameras, size, images=images)
    with pytest.raises(KinemaError, match="shape"):
        DeviceScene(stage, 1, find_device("cpu"), per_env=("shape",)) if stage.n_links else DeviceScene(
            RenderScene(), 1, find_device("cpu"), per_env=("shape",)
        )


def test_one_of_several_processes_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is loaded for the first time while no other process that shares the cache may load it."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    locked = []

    class Module:
        name = "module"

        def load(self, *_: object) -> None:
            with (tmp_path / "warp" / "module.lock").open("ab") as stream:
                try:
                    fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    locked.append(True)
                else:
                    locked.append(False)

    module = Module()
    for _ in range(2):
        launch_over_items(SimpleNamespace(module=module), 0, [], find_device("cpu"))
    assert locked == [True, False]
