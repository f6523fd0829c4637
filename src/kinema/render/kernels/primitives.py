"""Where rays meet primitive shapes, in the frame of the shape: the distance, or a negative number.

Each gives the nearest meeting ahead of the start, which may lie inside.
"""

from __future__ import annotations

import warp as wp

from .records import BOX, CAPSULE, CONE, CYLINDER, ELLIPSOID, PLANE, SPHERE


@wp.func
def ahead(near: float, far: float) -> float:
    """The nearer of two distances that is not behind."""
    t = near
    if near < 0.0:
        t = far
    return t


@wp.func
def meet_sphere(o: wp.vec3, d: wp.vec3, radius: float) -> float:
    """By the point of the ray that is nearest to the centre, which keeps precision far away."""
    length = wp.dot(d, d)
    b = -wp.dot(o, d) / length
    nearest = o + b * d
    rest = radius * radius - wp.dot(nearest, nearest)
    t = float(-1.0)
    if rest >= 0.0:
        half = wp.sqrt(rest / length)
        t = ahead(b - half, b + half)
    return t


@wp.func
def meet_box(o: wp.vec3, d: wp.vec3, half: wp.vec3) -> float:
    near = float(-1.0e30)
    far = float(1.0e30)
    for i in range(3):
        if wp.abs(d[i]) > 1.0e-12:
            a = (-half[i] - o[i]) / d[i]
            b = (half[i] - o[i]) / d[i]
            near = wp.max(near, wp.min(a, b))
            far = wp.min(far, wp.max(a, b))
        elif wp.abs(o[i]) > half[i]:
            far = -1.0e30
    t = float(-1.0)
    if near <= far:
        t = ahead(near, far)
    return t


@wp.func
def meet_plane(o: wp.vec3, d: wp.vec3, half: wp.vec3) -> float:
    """The plane z = 0; a rectangle where half edges are given."""
    t = float(-1.0)
    if wp.abs(d[2]) > 1.0e-12:
        t = -o[2] / d[2]
        if half[0] > 0.0 and (wp.abs(o[0] + t * d[0]) > half[0] or wp.abs(o[1] + t * d[1]) > half[1]):
            t = -1.0
    return t


@wp.func
def meet_tube(o: wp.vec3, d: wp.vec3, radius: float) -> wp.vec2:
    """Both distances of an endless tube around z; the first is larger than the second where there are none."""
    a = d[0] * d[0] + d[1] * d[1]
    found = wp.vec2(1.0, -1.0)
    if a > 1.0e-12:
        b = -(o[0] * d[0] + o[1] * d[1]) / a
        x = o[0] + b * d[0]
        y = o[1] + b * d[1]
        rest = radius * radius - x * x - y * y
        if rest >= 0.0:
            half = wp.sqrt(rest / a)
            found = wp.vec2(b - half, b + half)
    elif o[0] * o[0] + o[1] * o[1] <= radius * radius:
        found = wp.vec2(-1.0e30, 1.0e30)
    return found


@wp.func
def meet_cylinder(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    tube = meet_tube(o, d, radius)
    near = tube[0]
    far = tube[1]
    t = float(-1.0)
    if near <= far:
        if wp.abs(d[2]) > 1.0e-12:
            a = (-half - o[2]) / d[2]
            b = (half - o[2]) / d[2]
            near = wp.max(near, wp.min(a, b))
            far = wp.min(far, wp.max(a, b))
        elif wp.abs(o[2]) > half:
            far = -1.0e30
        if near <= far:
            t = ahead(near, far)
    return t


@wp.func
def sooner(best: float, t: float, valid: bool) -> float:
    """The smaller of two distances, where the second counts and is ahead."""
    result = best
    if valid and t >= 0.0 and (best < 0.0 or t < best):
        result = t
    return result


@wp.func
def meet_capsule(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    tube = meet_tube(o, d, radius)
    t = float(-1.0)
    if tube[0] <= tube[1]:
        for i in range(2):
            t = sooner(t, tube[i], wp.abs(o[2] + tube[i] * d[2]) <= half)
    for i in range(2):
        side = float(1 - 2 * i)
        center = wp.vec3(0.0, 0.0, side * half)
        length = wp.dot(d, d)
        b = wp.dot(center - o, d) / length
        nearest = o + b * d - center
        rest = radius * radius - wp.dot(nearest, nearest)
        if rest >= 0.0:
            reach = wp.sqrt(rest / length)
            t = sooner(t, b - reach, side * (o[2] + (b - reach) * d[2]) >= half)
            t = sooner(t, b + reach, side * (o[2] + (b + reach) * d[2]) >= half)
    return t


@wp.func
def meet_cone(o: wp.vec3, d: wp.vec3, radius: float, half: float) -> float:
    """Its apex is at +half, its base at -half."""
    slope = radius / (2.0 * half)
    k = slope * slope
    h = half - o[2]  # below the apex
    a = d[0] * d[0] + d[1] * d[1] - k * d[2] * d[2]
    b = o[0] * d[0] + o[1] * d[1] + k * h * d[2]
    c = o[0] * o[0] + o[1] * o[1] - k * h * h
    t = float(-1.0)
    rest = b * b - a * c
    if rest >= 0.0 and wp.abs(a) > 1.0e-12:
        root = wp.sqrt(rest)
        for i in range(2):
            s = (-b + float(2 * i - 1) * root) / a
            z = o[2] + s * d[2]
            t = sooner(t, s, z >= -half and z <= half)
    if wp.abs(d[2]) > 1.0e-12:
        s = (-half - o[2]) / d[2]
        x = o[0] + s * d[0]
        y = o[1] + s * d[1]
        t = sooner(t, s, x * x + y * y <= radius * radius)
    return t


@wp.func
def meet_solid(kind: int, size: wp.vec3, o: wp.vec3, d: wp.vec3) -> float:
    """Of any kind but planes and meshes."""
    t = float(-1.0)
    if kind == SPHERE:
        t = meet_sphere(o, d, size[0])
    elif kind == BOX:
        t = meet_box(o, d, size)
    elif kind == CAPSULE:
        t = meet_capsule(o, d, size[0], size[1])
    elif kind == CYLINDER:
        t = meet_cylinder(o, d, size[0], size[1])
    elif kind == ELLIPSOID:
        t = meet_sphere(wp.cw_div(o, size), wp.cw_div(d, size), 1.0)
    elif kind == CONE:
        t = meet_cone(o, d, size[0], size[1])
    return t


@wp.func
def normal_at(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec3:
    """Outwards, at a point of the surface."""
    n = wp.vec3(0.0, 0.0, 1.0)
    across = wp.vec3(p[0], p[1], 0.0)
    side = wp.sign(p[2])
    if kind == SPHERE:
        n = p
    elif kind == BOX:
        off = wp.vec3(wp.abs(p[0]) - size[0], wp.abs(p[1]) - size[1], wp.abs(p[2]) - size[2])
        if off[0] >= off[1] and off[0] >= off[2]:
            n = wp.vec3(wp.sign(p[0]), 0.0, 0.0)
        elif off[1] >= off[2]:
            n = wp.vec3(0.0, wp.sign(p[1]), 0.0)
        else:
            n = wp.vec3(0.0, 0.0, side)
    elif kind == CAPSULE:
        n = p - wp.vec3(0.0, 0.0, wp.clamp(p[2], -size[1], size[1]))
    elif kind == CYLINDER:
        if wp.length(across) - size[0] > wp.abs(p[2]) - size[1]:
            n = across
        else:
            n = wp.vec3(0.0, 0.0, side)
    elif kind == ELLIPSOID:
        n = wp.cw_div(wp.cw_div(p, size), size)
    elif kind == CONE:
        slope = size[0] / (2.0 * size[1])
        if wp.length(across) - slope * (size[1] - p[2]) >= -(p[2] + size[1]):
            n = wp.normalize(across) + wp.vec3(0.0, 0.0, slope)
        else:
            n = wp.vec3(0.0, 0.0, -1.0)
    return wp.normalize(n)


@wp.func
def uv_at(kind: int, size: wp.vec3, p: wp.vec3) -> wp.vec2:
    """Texture coordinates: a flat shape's are metres, a round one's go once around; those of a box, over each side."""
    uv = wp.vec2(p[0], p[1])
    if kind == PLANE:
        if size[0] > 0.0:
            uv = wp.vec2(0.5 + 0.5 * p[0] / size[0], 0.5 + 0.5 * p[1] / size[1])
    elif kind == BOX:
        n = normal_at(kind, size, p)
        if wp.abs(n[0]) > 0.5:
            uv = wp.vec2(0.5 + 0.5 * p[1] / size[1], 0.5 + 0.5 * p[2] / size[2])
        elif wp.abs(n[1]) > 0.5:
            uv = wp.vec2(0.5 + 0.5 * p[0] / size[0], 0.5 + 0.5 * p[2] / size[2])
        else:
            uv = wp.vec2(0.5 + 0.5 * p[0] / size[0], 0.5 + 0.5 * p[1] / size[1])
    else:
        top = size[0]
        if kind == CAPSULE:
            top = size[0] + size[1]
        elif kind == CYLINDER or kind == CONE:
            top = size[1]
        elif kind == ELLIPSOID:
            top = size[2]
        uv = wp.vec2(0.5 + wp.atan2(p[1], p[0]) / (2.0 * wp.pi), 0.5 + 0.5 * p[2] / top)
    return uv
